#!/usr/bin/env python3
"""recommenders - the example jobs of recommenders, each beside the same model trained in one process.

Trains each example with `cadre run`, runs its reference of bench/ in NumPy, and compares what both
find on the rows held out. $CADRE_NUMPY is a virtual environment with `pip install numpy`, without
which python3 itself has to have it; the test is skipped, exit status 77, where there is none. Cases
whose data are not there ($CADRE_TEST_DATA) say so.

    recommenders.py [CASE...]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ.get("CADRE_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
BIN = pathlib.Path(os.environ.get("CADRE_BIN_DIR", SOURCE / "build/release/bin"))
DATA = pathlib.Path(os.environ.get("CADRE_TEST_DATA", "/nowhere"))
VENV = os.environ.get("CADRE_NUMPY")
PYTHON = f"{VENV}/bin/python" if VENV else sys.executable
LIMIT_S = 600
CLICKS = 600_000


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          timeout=LIMIT_S)
    if done.returncode != 0:
        sys.exit(f"recommenders: {words}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def reference(script, *words):
    """The figures that a reference prints, a line of JSON."""
    return json.loads(run(PYTHON, SOURCE / "bench" / script, *words).splitlines()[-1])


def generated(script, *words):
    """The figures that a generator prints, which has no need of NumPy."""
    return json.loads(run(sys.executable, SOURCE / "bench" / script, *words).splitlines()[-1])


def train(example, folder):
    """The figures that `cadre run` prints: of the result, and its metrics."""
    output = run(BIN / "cadre", "run", SOURCE / "examples" / f"{example}.json", "--data", folder,
                 "--checkpoint-dir", "none", "-o", "json")
    result = json.loads(output.splitlines()[-1])
    return {**result["metrics"], "accuracy": result["accuracy"], "loss": result["loss"]}


def expect(case, name, found, wanted, within):
    print(f"{case}: {name} {found:.4f}, in NumPy {wanted:.4f}")
    if not abs(found - wanted) <= within:
        sys.exit(f"recommenders: {case}: {name} is {abs(found - wanted):.4f} away, over {within:.4f}")


def expect_at_least(case, name, found, least):
    if not found >= least:
        sys.exit(f"recommenders: {case}: {name} is {found:.4f}, below {least:.4f}")


def adult(_):
    folder = DATA / "adult"
    if not (folder / "a9a").exists():
        print("adult: left out, $CADRE_TEST_DATA has no adult/a9a")
        return
    found, wanted = train("adult_sparse", folder), reference("adult.py", folder)
    expect("adult", "accuracy", found["accuracy"], wanted["accuracy"], 0.005)
    expect("adult", "auc_exact", found["auc_exact"], wanted["auc_exact"], 0.003)
    expect("adult", "loss", found["loss"], wanted["loss"], 0.003)
    expect_at_least("adult", "accuracy", found["accuracy"], 0.849)
    expect_at_least("adult", "auc_exact", found["auc_exact"], 0.90)


def skip_gram(_):
    folder = DATA / "text"
    if not (folder / "tinyshakespeare.txt").exists():
        print("skip_gram: left out, $CADRE_TEST_DATA has no text/tinyshakespeare.txt")
        return
    found = train("skip_gram", folder)
    wanted = reference("skip_gram.py", folder / "tinyshakespeare.txt")
    expect("skip_gram", "loss", found["loss"], wanted["loss"], 0.02 * wanted["loss"])


def ratings(folder):
    run(sys.executable, SOURCE / "bench/ratings.py", "generate", folder)
    found, wanted = train("ratings", folder), reference("ratings.py", "reference", folder)
    expect("ratings", "rmse", found["rmse"], wanted["rmse"], 0.01)


def movies(folder):
    """Nothing is known of a held-out movie but its genres, and of a user 60 ratings."""
    drawn = generated("movies.py", folder)
    found = train("movies", folder)
    print(f"movies: rmse {found['rmse']:.4f}, of the model that drew them {drawn['rmse']:.4f}")
    expect("movies", "rmse", found["rmse"], drawn["rmse"], 0.07)


def two_tower(folder):
    drawn = generated("views.py", "generate", folder)
    found, wanted = train("two_tower", folder), reference("views.py", "reference", folder)
    expect("two_tower", "recall", found["top_k_accuracy"], wanted["recall"], 0.02)
    expect("two_tower", "loss", found["loss"], wanted["loss"], 0.02 * wanted["loss"])
    print(f"two_tower: recall of the model that drew them {drawn['recall']:.4f}")
    expect_at_least("two_tower", "recall", found["top_k_accuracy"], drawn["recall"] - 0.04)


def dlrm(folder):
    """The click log says by itself what can be reached: by the logit that the clicks were drawn by."""
    drawn = generated("criteo.py", folder, CLICKS)
    found = train("dlrm", folder)
    print(f"dlrm: auc {found['auc']:.4f}, by the logit itself {drawn['auc']:.4f}")
    expect_at_least("dlrm", "auc", found["auc"], drawn["auc"] - 0.01)


CASES = {"adult": adult, "skip_gram": skip_gram, "ratings": ratings, "movies": movies,
         "two_tower": two_tower, "dlrm": dlrm}


def main(names):
    if subprocess.run([PYTHON, "-c", "import numpy"], capture_output=True).returncode != 0:
        print(f"skipped: {PYTHON} has no NumPy: python3 -m venv DIR && DIR/bin/pip install numpy, "
              "and CADRE_NUMPY=DIR")
        return 77
    for name in names or CASES:
        with tempfile.TemporaryDirectory() as folder:
            CASES[name](folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
