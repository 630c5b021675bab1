"""What is inferred: layers, priors, likelihoods, predictives."""
