"""Compiled lanes that the fast paths share: numbers in vector registers, by numba."""
