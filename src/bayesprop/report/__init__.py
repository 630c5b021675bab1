"""One self-contained HTML page from a fitted model.

`contents.py` computes what a page says, `page.py` draws and fills it, `write.py` writes it;
`tasks.py` holds all that differs between numbers and classes.
"""
