#!/usr/bin/env python3
"""recommenders - the example jobs of recommenders, each beside the same model trained in one process.

Trains each example with `cadre run`, runs its reference of bench/ in NumPy, and compares what both
find on the rows held out. NumPy is that of a python3 (Debian's python3-numpy, which
deploy/setup-debian.sh --tests installs), or of the virtual environment $CADRE_NUMPY. Cases that need it
where there is none, and cases whose data are not there ($CADRE_TEST_DATA), say so; the test is
skipped, exit status 77, when no case has run. --quick runs those that end in about a minute.

    recommenders.py [--quick | CASE...]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(os.environ.get("CADRE_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
BIN = pathlib.Path(os.environ.get("CADRE_BIN_DIR", SOURCE / "build/release/bin"))
DATA = pathlib.Path(os.environ.get("CADRE_TEST_DATA", "/nowhere"))
VENV = os.environ.get("CADRE_NUMPY")
# Debian's python3-numpy is of Debian's python3, which may not be the first one of $PATH.
PYTHONS = (f"{VENV}/bin/python",) if VENV else (sys.executable, "/usr/bin/python3")
LIMIT_S = 600
CLICKS = 600_000


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          timeout=LIMIT_S)
    if done.returncode != 0:
        sys.exit(f"recommenders: {words}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def find_numpy():
    """The first Python that has NumPy, or None."""
    for python in PYTHONS:
        if os.access(python, os.X_OK) and subprocess.run(
                [python, "-c", "import numpy"], capture_output=True).returncode == 0:
            return python
    return None


def reference(script, *words):
    """The figures that a reference prints, a line of JSON."""
    return json.loads(run(find_numpy(), SOURCE / "bench" / script, *words).splitlines()[-1])


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
        return "$CADRE_TEST_DATA has no adult/a9a"
    found, wanted = train("adult_sparse", folder), reference("adult.py", folder)
    expect("adult", "accuracy", found["accuracy"], wanted["accuracy"], 0.005)
    expect("adult", "auc_exact", found["auc_exact"], wanted["auc_exact"], 0.003)
    expect("adult", "loss", found["loss"], wanted["loss"], 0.003)
    expect_at_least("adult", "accuracy", found["accuracy"], 0.849)
    expect_at_least("adult", "auc_exact", found["auc_exact"], 0.90)


def skip_gram(_):
    folder = DATA / "text"
    if not (folder / "tinyshakespeare.txt").exists():
        return "$CADRE_TEST_DATA has no text/tinyshakespeare.txt"
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
NEED_NUMPY = ("adult", "skip_gram", "ratings", "two_tower")
QUICK = ("adult", "ratings", "movies")


def run_case(name, has_numpy):
    """Whether the case has run; one returns why it cannot."""
    begin = time.monotonic()
    if name in NEED_NUMPY and not has_numpy:
        why = f"{' and '.join(PYTHONS)} have no NumPy: deploy/setup-debian.sh --tests"
    else:
        with tempfile.TemporaryDirectory() as folder:
            why = CASES[name](os.path.join(folder, "data")) # which the scripts make
    print(f"{name}: left out, {why}" if why else f"{name}: {time.monotonic() - begin:.0f} s",
          flush=True)
    return not why


def main(names):
    has_numpy = find_numpy() is not None
    names = QUICK if names == ["--quick"] else names or CASES
    ran = [run_case(name, has_numpy) for name in names]
    return 0 if any(ran) else 77


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
