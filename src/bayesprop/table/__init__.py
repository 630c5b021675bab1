"""A person's table: read, understood, checked, and encoded as numbers."""
