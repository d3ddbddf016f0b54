#!/usr/bin/env python3
"""Sparse logistic regression of UCI Adult by FTRL in one process, in NumPy.

    adult.py DIR    trains on DIR/a9a what examples/adult_sparse.json trains, and prints a line of
                    JSON: accuracy, area under the curve and log loss on DIR/a9a.t

FTRL-proximal (McMahan and others 2013, "Ad click prediction: a view from the trenches") as Keras
and docs/optimizers.md write it, one batch after the other, in double precision.
"""
import json
import sys

FEATURES, ITEMS = 123, 14
BATCH, EPOCHS, RATE, ACCUMULATED = 128, 10, 0.1, 0.1  # as examples/adult_sparse.json has them


def read(path):
    """Reads LIBSVM rows of ones: ids [rows, ITEMS], 0 for none, and labels 0 or 1."""
    import numpy as np
    ids, labels = [], []
    with open(path) as file:
        for line in file:
            label, *items = line.split()
            found = [int(item.split(":")[0]) for item in items]
            ids.append(found + [0] * (ITEMS - len(found)))
            labels.append(float(label) > 0)
    return np.array(ids), np.array(labels, dtype=float)


class Ftrl:
    def __init__(self, size):
        import numpy as np
        self.n, self.z = np.full(size, ACCUMULATED), np.zeros(size)

    def step(self, w, g):
        n = self.n + g * g
        self.z += g - (n ** 0.5 - self.n ** 0.5) / RATE * w
        self.n = n
        w[:] = -self.z * RATE / n ** 0.5


def area_under_curve(scores, labels):
    """Mann-Whitney with equal scores as half."""
    import numpy as np
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    positives = labels.sum()
    pairs = ranks[labels > 0].sum() - positives * (positives + 1) / 2
    return pairs / (positives * (len(labels) - positives))


def main(folder):
    import numpy as np
    rng = np.random.default_rng(1)
    w, b = np.zeros(FEATURES + 1), np.zeros(1)
    for_w, for_b = Ftrl(w.shape), Ftrl(b.shape)
    ids, labels = read(f"{folder}/a9a")
    for _ in range(EPOCHS):
        order = rng.permutation(len(labels))
        for first in range(0, len(order), BATCH):
            rows = order[first:first + BATCH]
            chosen = ids[rows]
            logits = b + (w[chosen] * (chosen > 0)).sum(1)
            slope = (1 / (1 + np.exp(-logits)) - labels[rows]) / len(rows)
            gradient = np.bincount(chosen.ravel(), np.repeat(slope, ITEMS), FEATURES + 1)
            gradient[0] = 0
            for_w.step(w, gradient)
            for_b.step(b, slope.sum())
    ids, labels = read(f"{folder}/a9a.t")
    logits = b + (w[ids] * (ids > 0)).sum(1)
    loss = np.logaddexp(0, logits) - labels * logits
    print(json.dumps({"accuracy": float(((logits > 0) == (labels > 0.5)).mean()),
                      "auc_exact": float(area_under_curve(logits, labels)),
                      "loss": float(loss.mean())}))


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(sys.argv[1])
