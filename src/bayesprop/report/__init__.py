"""One self-contained HTML page from a fitted model, and the pictures of experiments.

`write.py` writes either page. `page*.py` is what both have in common, `class_*.py` the page of a
classifier; the others belong to that of a regressor. `*_figure.py` draws for an experiment.
"""
