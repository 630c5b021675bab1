"""A table's model: fitted, judged, saved and asked in the words of the table, not of a matrix."""
