"""Batch expectation propagation (Jylänki, Nummenmaa & Vehtari 2014)."""
