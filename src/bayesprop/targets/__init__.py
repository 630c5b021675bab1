"""Kinds of targets: bijectors, counts, limits and what is censored at them."""
