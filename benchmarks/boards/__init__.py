"""Public boards: wrappers as they ask for them, and their protocols on tables that are at hand."""
