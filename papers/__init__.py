"""The tables and figures of the papers: one file each, run cell by cell, rows kept on disk."""
