#!/usr/bin/env python3
"""Runs what the figures of docs/strategies.md show, and keeps the history of each run.

    bench/curves/run.py build/release/bin/cadre                    # the digits, and MNIST where CADRE_DATA has it
    bench/curves/run.py build/release/bin/cadre --only consistency # some of the figures
    bench/curves/draw.py                                           # then the figures again

Each curve is one run of `cadre run` with --history; docs/curves/DATA-FIGURE.csv holds the histories of one figure, with the
curve's name as their first column. Needs Python's standard library alone. Exit code 1: a run failed.
"""
import argparse
import copy
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cases

ROOT = pathlib.Path(__file__).resolve().parents[2]
CURVES = ROOT / "docs" / "curves"
KEPT = ("epoch", "step", "seconds", "loss", "test_loss", "test_accuracy", "staleness_mean", "examples_per_s")
RUN_S = 300  # limit for one run


def digits():
    """The shipped job of the digits: its data and its model."""
    job = json.loads((ROOT / "examples" / "digits.json").read_text())
    job["data"]["train"]["path"] = str(ROOT / "examples" / "data" / "digits.csv.gz")
    return {"data": job["data"], "model": job["model"]}


def job_of(data, settings):
    """A job of this data: what all curves have, with the settings of one."""
    job = copy.deepcopy(cases.BASE)
    job.update({"name": "curve", "seed": 1})
    job.update(copy.deepcopy(data))
    for path, value in settings.items():
        section, key = path.split(".")
        job[section][key] = value
    return job


def history_of(cadre, job, folder):
    """The rows of the history of one run."""
    path, history = folder / "job.json", folder / "history.csv"
    path.write_text(json.dumps(job))
    run = subprocess.run([cadre, "run", str(path), "--history", str(history)], timeout=RUN_S,
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"{json.dumps(job)}: exit code {run.returncode}\n{run.stderr}")
    with history.open(newline="") as file:
        return list(csv.DictReader(file))


def run_figure(cadre, name, data, figure, folder):
    """Runs all curves of a figure, and writes its CSV."""
    with (CURVES / f"{name}-{figure}.csv").open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(("curve",) + KEPT)
        for curve, settings in cases.FIGURES[figure][1].items():
            rows = history_of(cadre, job_of(data, settings), folder)
            out.writerows([curve] + [row[column] for column in KEPT] for row in rows)
            last = rows[-1]
            print(f"{name} {figure} {curve}: accuracy {float(last['test_accuracy']):.4f}, "
                  f"staleness {last['staleness_mean'][:5]}, {last['seconds']} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cadre", help="the command")
    parser.add_argument("--only", help="figures, by name, with commas between them")
    flags = parser.parse_args()
    figures = flags.only.split(",") if flags.only else list(cases.FIGURES)
    sets = {"digits": digits()}
    folder = os.environ.get("CADRE_DATA")
    if folder and (pathlib.Path(folder) / "mnist").is_dir():
        sets["mnist"] = cases.MNIST
    else:
        print("no MNIST: CADRE_DATA names no folder that has mnist/", flush=True)
    for name, data in sets.items():
        for figure in figures:
            with tempfile.TemporaryDirectory() as scratch:
                run_figure(flags.cadre, name, data, figure, pathlib.Path(scratch))


if __name__ == "__main__":
    main()
