"""Choose an arm in a context, and learn from what it pays, with any estimator."""
