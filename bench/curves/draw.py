#!/usr/bin/env python3
"""Draws docs/curves/*.svg from docs/curves/*.csv (run.py): accuracy on the held-out rows after each epoch, a line for each curve.

Needs Python's standard library alone. Without arguments it draws all; --check says whether the figures are those of their CSV.
"""
import csv
import pathlib
import sys
from xml.sax.saxutils import escape

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cases

CURVES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "curves"
WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 60, 470, 40, 310  # of the plot
COLOURS = ("#1b6ca8", "#d1495b", "#3a7d44", "#8d5a97", "#c77d0a", "#4a4a4a")


def read(path):
    """The points of each curve: [(epoch, accuracy)], by its name, in the order of the file."""
    curves = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            curves.setdefault(row["curve"], []).append((int(row["epoch"]), float(row["test_accuracy"])))
    return curves


def lowest(curves):
    """Where the axis of accuracy begins: what is below is cut off, as most curves begin far below where they end."""
    ends = min(points[-1][1] for points in curves.values())
    return max(0.0, min(0.9, int(ends * 20 - 1) / 20))


def text(x, y, words, anchor="middle"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def draw(path):
    """The figure of one CSV."""
    curves = read(path)
    name, figure = path.stem.split("-", 1)
    low, last = lowest(curves), max(points[-1][0] for points in curves.values())
    place_x = lambda epoch: LEFT + (RIGHT - LEFT) * epoch / last
    place_y = lambda value: BOTTOM - (BOTTOM - TOP) * (value - low) / (1 - low)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
           'font-family="sans-serif" font-size="12" fill="#222">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
           f'<clipPath id="plot"><rect x="{LEFT}" y="{TOP}" width="{RIGHT - LEFT}" height="{BOTTOM - TOP}"/></clipPath>',
           text(LEFT, 22, f"{name}: {cases.FIGURES[figure][0]}", "start")]
    for step in range(6):
        value = low + (1 - low) * step / 5
        out.append(f'<line x1="{LEFT}" x2="{RIGHT}" y1="{place_y(value):.1f}" y2="{place_y(value):.1f}" stroke="#ddd"/>')
        out.append(text(LEFT - 6, place_y(value) + 4, f"{100 * value:.1f} %", "end"))
    for epoch in range(0, last + 1, max(1, last // 5)):
        out.append(text(place_x(epoch), BOTTOM + 18, str(epoch)))
    out.append(text((LEFT + RIGHT) / 2, BOTTOM + 38, "epoch (accuracy on held-out rows)"))
    for at, (curve, points) in enumerate(curves.items()):
        colour = COLOURS[at % len(COLOURS)]
        line = " ".join(f"{place_x(epoch):.1f},{place_y(value):.1f}" for epoch, value in points)
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2" clip-path="url(#plot)"/>')
        y = TOP + 14 + 20 * at
        out.append(f'<line x1="{RIGHT + 12}" x2="{RIGHT + 34}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2"/>')
        out.append(text(RIGHT + 40, y + 4, curve, "start"))
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    stale = []
    for path in sorted(CURVES.glob("*.csv")):
        figure, drawn = path.with_suffix(".svg"), draw(path)
        if sys.argv[1:] == ["--check"]:
            stale += [] if figure.is_file() and figure.read_text() == drawn else [figure.name]
        else:
            figure.write_text(drawn)
    if stale:
        sys.exit("not drawn from their CSV, run bench/curves/draw.py: " + ", ".join(stale))


if __name__ == "__main__":
    main()
