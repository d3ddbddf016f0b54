#!/usr/bin/env python3
"""Ratings of movies by users, with genres of which a movie has several.

    movies.py DIR    writes movies_train.csv and movies_test.csv: user, genres, rating; prints a line
                     of JSON: the root of the mean squared error of the model that drew the test
                     rows, and that of the mean of all

600 users, by name, 2,000 movies with 1 to 5 of 20 genres, each with a weight from 0.25 to 1, and
40,000 ratings, of which those of every tenth movie are held out: what is known of such a movie are
its genres. A rating is a mean, a bias of the user, the product of the user's vector of 4 numbers
with the weighted mean of those of the genres, and noise. What examples/movies.json trains on.
"""
import json
import os
import random
import sys

USERS, MOVIES, RATINGS, HIDDEN, NOISE = 600, 2000, 40_000, 4, 0.5
GENRES = ("Action Adventure Animation Children's Comedy Crime Documentary Drama Fantasy Film-Noir "
          "Horror Musical Mystery Romance Sci-Fi Thriller War Western Sport Biography").split()


def main(folder):
    rng = random.Random(300)

    def vector():
        return [rng.gauss(0, 1) for _ in range(HIDDEN)]

    users = [(rng.gauss(0, 0.4), vector()) for _ in range(USERS)]
    genres = {name: vector() for name in GENRES}
    movies = [{name: rng.choice((0.25, 0.5, 1)) for name in rng.sample(GENRES, rng.randint(1, 5))}
              for _ in range(MOVIES)]
    errors, values = [], []
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/movies_train.csv", "w") as train, \
            open(f"{folder}/movies_test.csv", "w") as test:
        for file in (train, test):
            file.write("user,genres,rating\n")
        for _ in range(RATINGS):
            user, movie = rng.randrange(USERS), rng.randrange(MOVIES)
            bias, taste = users[user]
            weights = movies[movie]
            mean = [sum(weights[name] * genres[name][k] for name in weights) / sum(weights.values())
                    for k in range(HIDDEN)]
            drawn = 3.5 + bias + 0.5 * sum(x * y for x, y in zip(taste, mean))
            rating = drawn + rng.gauss(0, NOISE)
            file = test if movie % 10 == 9 else train
            field = "|".join(name if weight == 1 else f"{name}:{weight}"
                             for name, weight in weights.items())
            file.write(f"user-{user},{field},{rating:.3f}\n")
            if file is test:
                errors.append((rating - drawn) ** 2)
                values.append(rating)
    spread = sum((value - sum(values) / len(values)) ** 2 for value in values)
    print(json.dumps({"rmse": (sum(errors) / len(errors)) ** 0.5,
                      "mean": (spread / len(values)) ** 0.5}))


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(sys.argv[1])
