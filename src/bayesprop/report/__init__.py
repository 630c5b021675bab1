"""One self-contained HTML page from a fitted model.

`contents.py` computes what a page says, and asks `of_numbers.py` or `of_classes.py` for all that
differs between the two; `page.py` draws it, fills the templates and writes the page.
"""
