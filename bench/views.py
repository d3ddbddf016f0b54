#!/usr/bin/env python3
"""Views of items by users, and a model in two towers of them in one process.

    views.py generate DIR    writes views_train.csv and views_test.csv: user, item; says the
                             recall at 20 of the model that drew them
    views.py reference DIR   trains in NumPy what examples/two_tower.json trains, and prints a line
                             of JSON: recall at 20, at 1, and loss on the test rows

800 users, 1,000 items, 100 views of each user, of which every tenth is held out. A user draws items
with a probability in proportion to exp(b + <u, v>): few items have most of the views. The reference
is the softmax over the batch with the correction log q of Yi and others 2019, "Sampling-bias-
corrected neural modeling for large corpus item recommendations", q an item's share of the rows so
far, with the same initial values' range, optimizer (Adam as Keras has it) and number of epochs.
"""
import itertools
import json
import math
import os
import random
import sys

USERS, ITEMS, VIEWS, HIDDEN, TOP = 800, 1000, 100, 6, 20
UNITS, BATCH, EPOCHS, RATE = 16, 256, 10, 0.003  # as examples/two_tower.json has them


def generate(folder):
    rng = random.Random(200)

    def vectors(count):
        return [[rng.gauss(0, 1) for _ in range(HIDDEN)] for _ in range(count)]

    users, items = vectors(USERS), vectors(ITEMS)
    popularity = [rng.gauss(0, 1) for _ in range(ITEMS)]
    found = 0
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/views_train.csv", "w") as train, \
            open(f"{folder}/views_test.csv", "w") as test:
        for file in (train, test):
            file.write("user,item\n")
        for user, vector in enumerate(users):
            scores = [b + sum(x * y for x, y in zip(vector, item))
                      for b, item in zip(popularity, items)]
            best = set(sorted(range(ITEMS), key=lambda item: -scores[item])[:TOP])
            ends = list(itertools.accumulate(map(math.exp, scores)))
            for number, item in enumerate(rng.choices(range(ITEMS), cum_weights=ends, k=VIEWS)):
                file = test if number % 10 == 9 else train
                file.write(f"{user},{item}\n")
                found += file is test and item in best
    print(json.dumps({"recall": found / (USERS * VIEWS / 10)}))


def read(path):
    import numpy as np
    rows = np.loadtxt(path, delimiter=",", skiprows=1, dtype=int)
    return rows[:, 0], rows[:, 1]


class Adam:
    def __init__(self, w):
        import numpy as np
        self.w, self.m, self.v, self.t = w, np.zeros_like(w), np.zeros_like(w), 0

    def step(self, g):
        self.t += 1
        self.m += 0.1 * (g - self.m)
        self.v += 0.001 * (g * g - self.v)
        rate = RATE * (1 - 0.999 ** self.t) ** 0.5 / (1 - 0.9 ** self.t)
        self.w -= rate * self.m / (self.v ** 0.5 + 1e-7)


def softmax_slope(queries, found, ids, log_q):
    """The gradient of the mean loss by the scores of a batch, [queries, candidates]."""
    import numpy as np
    scores = queries @ found.T - log_q
    scores[(ids[:, None] == ids) & ~np.eye(len(ids), dtype=bool)] = -np.inf
    slope = np.exp(scores - scores.max(1, keepdims=True))
    slope /= slope.sum(1, keepdims=True)
    slope[np.diag_indices(len(ids))] -= 1
    return slope / len(ids)


def reference(folder):
    import numpy as np
    rng = np.random.default_rng(1)
    users, candidates = (rng.uniform(-0.05, 0.05, (n, UNITS)) for n in (USERS, ITEMS))
    bound = (6 / (UNITS + UNITS)) ** 0.5
    w, b = rng.uniform(-bound, bound, (UNITS, UNITS)), np.zeros(UNITS)
    optimizers = [Adam(x) for x in (users, candidates, w, b)]
    seen = np.zeros(ITEMS)
    user, item = read(f"{folder}/views_train.csv")
    for _ in range(EPOCHS):
        order = rng.permutation(len(user))
        for first in range(0, len(order), BATCH):
            u, i = user[order[first:first + BATCH]], item[order[first:first + BATCH]]
            queries, found = users[u] @ w + b, candidates[i]
            slope = softmax_slope(queries, found, i, np.log(seen[i] + 1))
            by_query = slope @ found
            gradients = [np.zeros_like(users), np.zeros_like(candidates), users[u].T @ by_query,
                         by_query.sum(0)]
            np.add.at(gradients[0], u, by_query @ w.T)
            np.add.at(gradients[1], i, slope.T @ queries)
            np.add.at(seen, i, 1)
            for optimizer, gradient in zip(optimizers, gradients):
                optimizer.step(gradient)
    user, item = read(f"{folder}/views_test.csv")
    scores = (users[user] @ w + b) @ candidates.T
    right = scores[np.arange(len(item)), item]
    above = (scores > right[:, None]).sum(1)
    loss = np.log(np.exp(scores - right[:, None]).sum(1)).mean()
    popular = np.argsort(-seen)[:TOP]
    print(json.dumps({"recall": float((above < TOP).mean()), "accuracy": float((above < 1).mean()),
                      "loss": float(loss), "popular": float(np.isin(item, popular).mean())}))


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("generate", "reference") \
            or sys.argv[2].startswith("-"):
        sys.exit(__doc__)
    (generate if sys.argv[1] == "generate" else reference)(sys.argv[2])
