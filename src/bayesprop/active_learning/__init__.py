"""Which rows to measure next, with any estimator."""
