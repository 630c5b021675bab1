"""Probabilistic backpropagation (Hernández-Lobato & Adams 2015)."""
