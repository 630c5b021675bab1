"""Predictive distributions: moments, densities, quantiles of numbers; probabilities."""
