"""Hyper-parameters of every method, apart from scikit-learn: their rules, and what they make."""
