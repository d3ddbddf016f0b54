#!/usr/bin/env python3
"""Ratings like MovieLens 100K, and matrix factorization of them in one process.

    ratings.py generate DIR    writes ratings_train.csv and ratings_test.csv: user, item, rating
    ratings.py reference DIR   trains in NumPy what examples/ratings.json trains, and prints a
                               line of JSON: the root of the mean squared error on the test
                               rows, and that of the mean of all

943 users, 1,682 items and 100,000 ratings from 1 to 5, of which every tenth is held out. A rating
is a mean, a bias of user and item, the product of their vectors of 6 numbers, and noise, rounded.
Few users and items have most of the ratings. The reference is the same model (Rendle 2010 over the
two ids) with the same initial values' range, optimizer (Adam as Keras has it), batch size and
number of epochs, in double precision.
"""
import json
import os
import random
import sys

USERS, ITEMS, RATINGS, HIDDEN = 943, 1682, 100_000, 6
FACTORS, BATCH, EPOCHS, RATE = 8, 128, 12, 0.002  # as examples/ratings.json has them


def generate(folder):
    rng = random.Random(100)
    normal = rng.gauss

    def vectors(count):
        return [(normal(0, 0.4), [normal(0, 0.45) for _ in range(HIDDEN)]) for _ in range(count)]

    users, items = vectors(USERS), vectors(ITEMS)
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/ratings_train.csv", "w") as train, \
            open(f"{folder}/ratings_test.csv", "w") as test:
        for file in (train, test):
            file.write("user,item,rating\n")
        for number in range(RATINGS):
            user = int(USERS * rng.random() ** 1.5)
            item = int(ITEMS * rng.random() ** 2)
            rating = 3.5 + users[user][0] + items[item][0] + normal(0, 0.7)
            rating += sum(a * b for a, b in zip(users[user][1], items[item][1]))
            rating = min(5, max(1, round(rating)))
            file = test if number % 10 == 9 else train
            file.write(f"{user + 1},{item + 1},{rating}\n")


def read(path):
    import numpy as np
    rows = np.loadtxt(path, delimiter=",", skiprows=1)
    return rows[:, 0].astype(int), rows[:, 1].astype(int) + USERS + 1, rows[:, 2]


class Adam:
    def __init__(self, shape):
        import numpy as np
        self.m, self.v, self.t = np.zeros(shape), np.zeros(shape), 0

    def step(self, w, g):
        self.t += 1
        self.m += 0.1 * (g - self.m)
        self.v += 0.001 * (g * g - self.v)
        rate = RATE * (1 - 0.999 ** self.t) ** 0.5 / (1 - 0.9 ** self.t)
        w -= rate * self.m / (self.v ** 0.5 + 1e-7)


def reference(folder):
    import numpy as np
    rng = np.random.default_rng(1)
    ids = USERS + ITEMS + 2
    w, b = np.zeros(ids), np.zeros(1)
    v = rng.uniform(-0.05, 0.05, (ids, FACTORS))
    optimizers = [Adam(x.shape) for x in (w, b, v)]
    users, items, ratings = read(f"{folder}/ratings_train.csv")
    for _ in range(EPOCHS):
        order = rng.permutation(len(ratings))
        for first in range(0, len(order), BATCH):
            rows = order[first:first + BATCH]
            u, i = users[rows], items[rows]
            error = b + w[u] + w[i] + (v[u] * v[i]).sum(1) - ratings[rows]
            slope = 2 * error / len(rows)
            gw, gv = np.zeros_like(w), np.zeros_like(v)
            for mine, other in ((u, i), (i, u)):
                np.add.at(gw, mine, slope)
                np.add.at(gv, mine, slope[:, None] * v[other])
            for optimizer, x, g in zip(optimizers, (w, b, v), (gw, slope.sum(), gv)):
                optimizer.step(x, g)
    users, items, ratings = read(f"{folder}/ratings_test.csv")
    error = b + w[users] + w[items] + (v[users] * v[items]).sum(1) - ratings
    print(json.dumps({"rmse": float(np.sqrt((error ** 2).mean())),
                      "rmse_of_mean": float(ratings.std())}))


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("generate", "reference") \
            or sys.argv[2].startswith("-"):
        sys.exit(__doc__)
    (generate if sys.argv[1] == "generate" else reference)(sys.argv[2])
