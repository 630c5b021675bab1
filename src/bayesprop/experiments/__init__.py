"""The tables and figures of the papers."""
