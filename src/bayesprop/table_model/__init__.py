"""The model of a table: fit, evaluate, save and predict with tables instead of matrices."""
