"""Curvature and predictions of laplace-torch on two small networks, as an oracle for ours.

Written with torch 2.15, laplace-torch 0.3, backpack-for-pytorch 1.7.1 and numpy 2.4 in an
environment of its own; from the repository root: python tests/golden/make_laplace_torch.py
"""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from laplace import Laplace
from laplace.curvature import BackPackGGN

HERE = Path(__file__).parent
SIZES, N, PRIOR_PREC, NOISE_STD = (3, 5, 2), 12, 0.7, 0.6
STRUCTURES = {"full": "full", "kron": "kron", "diagonal": "diag"}


def network(layers):
    modules = []
    for number, layer in enumerate(layers):
        linear = torch.nn.Linear(*(torch.tensor(layer).shape[0] - 1, torch.tensor(layer).shape[1]))
        linear.weight.data = torch.tensor(layer[:-1]).T.contiguous()
        linear.bias.data = torch.tensor(layer[-1])
        modules += [linear] if number == len(layers) - 1 else [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*modules)


def described(layers, x, y, kind):
    inputs, targets = torch.tensor(x), torch.tensor(y)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(inputs, targets), batch_size=N
    )
    found = {}
    for ours, theirs in STRUCTURES.items():
        settings = {"sigma_noise": NOISE_STD} if kind == "regression" else {}
        la = Laplace(
            network(layers),
            kind,
            subset_of_weights="all",
            hessian_structure=theirs,
            prior_precision=PRIOR_PREC,
            backend=BackPackGGN,
            **settings,
        )
        la.fit(loader)
        mean, cov = la._glm_predictive_distribution(inputs)
        found[ours] = {
            "log_evidence": float(la.log_marginal_likelihood()),
            "mean": mean.tolist(),
            "cov": cov.tolist(),
        }
        if ours == "kron":
            found[ours]["weight_blocks"] = [
                [factor.tolist() for factor in pair] for pair in la.H_facs.kfacs
            ]
        if ours == "diagonal":
            found[ours]["curvature"] = la.H.tolist()
    return found


def main():
    torch.set_default_dtype(torch.float64)
    rng = np.random.default_rng(1992)
    layers = [rng.normal(size=(i + 1, o)).tolist() for i, o in pairwise(SIZES)]
    x = rng.normal(size=(N, SIZES[0]))
    y, codes = rng.normal(size=(N, SIZES[-1])), rng.integers(0, SIZES[-1], size=N)
    golden = {
        "layers": layers,
        "x": x.tolist(),
        "y": y.tolist(),
        "codes": codes.tolist(),
        "prior_prec": PRIOR_PREC,
        "noise_var": NOISE_STD**2,
        "regression": described(layers, x, y, "regression"),
        "classification": described(layers, x, codes, "classification"),
    }
    (HERE / "laplace-torch.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
