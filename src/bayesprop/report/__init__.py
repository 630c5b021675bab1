"""One self-contained HTML page from a fitted model, and the pictures of experiments.

`contents.py` computes what a page says, `page.py` draws and fills it, `write.py` writes it;
`tasks.py` holds all that differs between numbers and classes. `*_figure.py` draws for experiments.
"""
