"""The data sets that can be named, and where they come from."""
