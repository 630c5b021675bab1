"""Evaluation of predictions: calibration, scores, baselines, thresholds."""
