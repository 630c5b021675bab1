"""One self-contained HTML page from a fitted model."""
