"""Networks of plain and drawn weights: layers, priors, likelihoods, training, pruning."""
