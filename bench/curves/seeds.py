#!/usr/bin/env python3
"""Runs each setting of a comparison with many seeds, and prints the table of docs/strategies.md that compares them.

    bench/curves/seeds.py build/release/bin/cadre delay-compensation --seeds 60
    CADRE_DATA=/data bench/curves/seeds.py build/release/bin/cadre delay-compensation --data mnist

Where a run depends on timing as much as on its settings one curve says nothing: means and their standard errors do. A run that
diverges counts with the accuracy of a guess. Needs Python's standard library alone. Exit code 1: a run failed otherwise.
"""
import argparse
import math
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cases
import run

GUESS = 0.1  # accuracy on ten classes
GOOD = 0.9


def accuracy_of(cadre, data, settings, seed):
    """The accuracy that a run ends with; None for one that diverges."""
    job = run.job_of(data, settings)
    job["seed"] = seed
    with tempfile.TemporaryDirectory() as scratch:
        try:
            return float(run.history_of(cadre, job, pathlib.Path(scratch))[-1]["test_accuracy"])
        except SystemExit as failure:
            if "training diverged" in str(failure):
                return None
            raise


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cadre", help="the command")
    parser.add_argument("comparison", choices=list(cases.COMPARISONS))
    parser.add_argument("--data", choices=("digits", "mnist"), default="digits", help="what to train (digits)")
    parser.add_argument("--seeds", type=int, default=20, help="runs of each setting, at least 2 (20)")
    flags = parser.parse_args()
    data = cases.MNIST if flags.data == "mnist" else run.digits()
    print("| | accuracy, mean and standard error | below 90 % | diverged |\n| --- | --- | --- | --- |")
    for name, settings in cases.COMPARISONS[flags.comparison].items():
        found = [accuracy_of(flags.cadre, data, settings, seed) for seed in range(1, flags.seeds + 1)]
        kept = [GUESS if accuracy is None else accuracy for accuracy in found]
        error = statistics.stdev(kept) / math.sqrt(len(kept))
        print(f"| {name} | {100 * statistics.mean(kept):.1f} % +- {100 * error:.1f} | "
              f"{sum(accuracy < GOOD for accuracy in kept)} of {len(kept)} | {found.count(None)} |", flush=True)


if __name__ == "__main__":
    main()
