"""Rewrite the generated parts of README.md and RESULTS.md from the files in benchmarks/results.

usage: python benchmarks/publish.py [--no-plots]

A generated part stands between `<!-- NAME:begin ... -->` and `<!-- NAME:end -->`; edit this script instead.
"""

# ruff: noqa: E402
import argparse
import json
import re
import sys
import textwrap
from math import ceil
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
sys.path.insert(0, str(HERE / "peers"))

import extrapolate
import scale_report
from registry import COMPETITORS, OURS, PEERS, is_ours, title_of
from report import (
    MEGA,
    PRECISIONS,
    collect_datasets,
    markdown,
    measured_sections,
    number,
)
from sizes_figure import draw_sizes
from summary import read_rows

from labeltree.base.system import human_bytes
from labeltree.cli.printing import human_seconds

SHOWN = "eurlex57k"  # the dataset of the README's table
LINE = 118
WORDS = ("no", "one", "two", "three", "four", "five", "six")
TITLES = {"amazon-670k": "Amazon-670K", "amazon-3m": "Amazon-3M"}
# Heading, value, factor, unit.
COLUMNS = (
    ("Training", "train_s", 1, "s"),
    ("Batch", "batch_ms", 1, "ms/row"),
    ("Query", "single_p50_ms", 1, "ms"),
    ("Memory", "peak_bytes", MEGA, "MB"),
    ("Model", "model_bytes", MEGA, "MB"),
)
LEGEND = (
    "Training includes building the tree. Prediction times per row are for all test rows at once (Batch) "
    "and for single rows (Query). Memory is the peak during training. Pruned says which weights are dropped. "
    "P@k is in percent."
)


def load_results():
    """Read benchmarks/results."""
    shapes = json.loads((RESULTS / "datasets.json").read_text())
    return {
        "machine": json.loads((RESULTS / "machine.json").read_text()),
        "shapes": shapes,
        "datasets": collect_datasets(read_rows(RESULTS / "peers.jsonl"), shapes),
        "sizes": read_rows(RESULTS / "scale.jsonl"),
        "compact": read_rows(RESULTS / "compact.jsonl"),
    }


def peer_table(figures):
    """Return the README's table: one row per competitor, the best of each column in bold."""
    heads = ["", *(f"{head} ({unit})" for head, _, _, unit in COLUMNS), "Pruned", *PRECISIONS]
    best = {key: min(of[key]["median"] for of in figures.values()) for _, key, _, _ in COLUMNS}
    best |= {key: max(of[key]["median"] for of in figures.values()) for key in PRECISIONS}

    def cell(of, key, text):
        return f"**{text}**" if of[key]["median"] == best[key] else text

    lines = []
    for name, of in figures.items():
        threshold = COMPETITORS[name].threshold
        lines.append(
            [
                title_of(name),
                *(cell(of, key, number(factor * of[key]["median"])) for _, key, factor, _ in COLUMNS),
                f"< {threshold:g}" if threshold else "none",
                *(cell(of, key, f"{of[key]['median']:.1f}") for key in PRECISIONS),
            ]
        )
    return markdown(heads, lines)


def peer_titles():
    """Return the name of each peer library, without its variants."""
    return {peer: COMPETITORS[peer].title if peer in COMPETITORS else peer for peer in PEERS}


def ratios(datasets, metric):
    """Return {peer: ratios over all datasets and default settings}, labeltree being faster above 1."""
    found = {}
    for of in datasets.values():
        for name, compared in of["comparison"].items():
            found.setdefault(COMPETITORS[name].peer, []).append(compared["faster"][metric])
    return found


def span(values):
    """Format a range with two significant digits."""
    ends = [f"{value:.2g}" if value < 100 else f"{value:.0f}" for value in (min(values), max(values))]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def wrap(text, bullet=""):
    """Break a paragraph, or an item of a list, into lines."""
    indent = " " * len(bullet)
    return textwrap.fill(text, LINE, initial_indent=bullet, subsequent_indent=indent, break_on_hyphens=False)


def listed(parts):
    """Join with commas and a final `and`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def speed_sentences(datasets):
    """Return how much faster labeltree is than each peer, over all datasets."""
    training = ratios(datasets, "train_s")
    batch, single = (
        min(min(values) for values in ratios(datasets, metric).values())
        for metric in ("batch_ms", "single_p50_ms")
    )
    times = [f"{span(training[peer])} times as fast as {title}" for peer, title in peer_titles().items()]
    return (
        f"labeltree trains {listed(times)}. It predicts batches at least {span([batch])} times as fast, and "
        f"single rows at least {span([single])} times as fast, as any of them."
    )


def benefit_sentence(datasets):
    """Return the speed of training and the precision in one sentence, over all datasets and peers."""
    training = [ratio for values in ratios(datasets, "train_s").values() for ratio in values]
    behind = [
        max(0.0, *(-compared["difference"][k] for compared in of["comparison"].values() for k in PRECISIONS))
        for of in datasets.values()
    ]
    highest = sum(gap == 0 for gap in behind)
    precisions = listed(list(PRECISIONS))
    within = f"within {ceil(10 * max(behind)) / 10:g} points of the highest"
    if highest == len(behind):
        precision = f"the highest {precisions} on each"
    elif highest:
        rest = "the third" if (highest, len(behind)) == (2, 3) else "the others"
        precision = f"the highest {precisions} on {WORDS[highest]} and {within} on {rest}"
    else:
        precision = f"{precisions} {within}"
    return (
        f"On {WORDS[len(datasets)]} public datasets, it trains {span(training)} times as fast as "
        f"{listed(list(peer_titles().values()))}, with {precision}."
    )


def memory_sentence(datasets):
    """Return where labeltree needs the least memory, with the next lowest peer."""
    ours, others = {}, {}
    for dataset, of in datasets.items():
        peaks = {name: MEGA * figures["peak_bytes"]["median"] for name, figures in of["figures"].items()}
        ours[dataset] = peaks[OURS]
        others[dataset] = min(peak for name, peak in peaks.items() if not is_ours(name))
    least = [dataset for dataset in ours if ours[dataset] < others[dataset]]
    if not least:
        return ""
    where = "on every dataset" if len(least) == len(ours) else f"on {listed(least)}"
    numbers = [listed([f"{of[dataset]:,.0f}" for dataset in least]) for of in (ours, others)]
    return (
        f"It uses the least memory {where}: {numbers[0]} MB, compared with {numbers[1]} MB for the next best."
    )


def size_sentences(shapes):
    """Return what a tree takes relative to one-vs-rest, in labeltree's own format."""
    shares = [100 * shape["model_bytes"] / shape["one_vs_rest_bytes"] for shape in shapes.values()]
    pruning = [title for peer, title in peer_titles().items() if any_threshold(peer)]
    return (
        f"A tree takes {span(shares)}% of the space of one-vs-rest in the same format, without pruning; "
        f"{listed(pruning)} prune small weights by default."
    )


def any_threshold(peer):
    """Return True if a peer prunes by default."""
    return any(c.threshold for c in COMPETITORS.values() if c.peer == peer and not c.variant)


def precision_sentences(datasets):
    """Return where labeltree's P@k is the highest, and by how much others are better elsewhere."""
    highest, better = [], []
    for dataset, of in datasets.items():
        ahead = []
        for name, compared in of["comparison"].items():
            gaps = {key: -compared["difference"][key] for key in PRECISIONS}
            gaps = {key: gap for key, gap in gaps.items() if gap >= 0.005}  # as it is printed
            if gaps:
                points = listed([f"{gap:.2f}" for gap in gaps.values()])
                ahead.append(f"{title_of(name)} is higher by {points} points at {listed(list(gaps))}")
        if ahead:
            better.append(f"On {dataset}, {'; '.join(ahead)}.")
        else:
            highest.append(dataset)
    first = [f"labeltree has the highest P@1, P@3 and P@5 on {listed(highest)}."] if highest else []
    return " ".join([*first, *better])


def scale_sentence(records):
    """Return the cost of the largest size measured."""
    r = max(records, key=lambda record: record["labels"])
    spent = r["seconds"]["tree"] + r["seconds"]["train"]
    return (
        f"On synthetic data shaped like {TITLES[r['like']]} ({r['instances']:,} instances, {r['labels']:,} "
        f"labels), building the tree and training take {human_seconds(spent)} on the same machine, using "
        f"{human_bytes(r['memory']['train'])} of memory for a {human_bytes(r['disk_bytes'])} model; "
        f"prediction takes {r['milliseconds_per_row']:.2f} ms per row."
    )


def compact_table(records):
    """Return the size and the precision of the forms of each model."""
    lines = ["| | MB | P@1 | P@3 | P@5 |", "|---|---:|---:|---:|---:|"]
    for record in records:
        for row in record["rows"]:
            name = f"**{record['data']}**, float32" if row["name"] == "float32" else row["name"]
            if name == "compact":
                name += f", threshold {record['threshold']:g}"
            precision = " | ".join(f"{row[key]:.2f}" for key in PRECISIONS)
            lines.append(f"| {name} | {MEGA * row['model_bytes']:.1f} | {precision} |")
    return "\n".join(lines)


def pruning_sentence(records):
    """Return how much smaller compact models are, and what they lose of P@k at most."""
    ratios, lost = [], []
    for record in records:
        rows = {row["name"]: row for row in record["rows"]}
        full, compact = rows["float32"], rows["compact"]
        ratios.append(full["model_bytes"] / compact["model_bytes"])
        lost += [full[key] - compact[key] for key in PRECISIONS]
    return (
        f"Pruning made [{WORDS[len(records)]} models](benchmarks/RESULTS.md#compact-models) "
        f"{min(ratios):.0f} to {max(ratios):.0f} times smaller, and cost at most "
        f"{max(lost):.2f} points of P@k."
    )


def readme_block(results):
    """Return the benchmarks of the README."""
    shape, machine = results["shapes"][SHOWN], results["machine"]
    return "\n\n".join(
        [
            f"EURLEX57K ({shape['train_rows']:,} EU laws, {shape['labels']:,} labels) on {machine['short']}, "
            "default settings, one tree each:",
            peer_table(results["datasets"][SHOWN]["figures"]),
            wrap(LEGEND),
        ]
    )


def blocks(results):
    """Return the generated text of each block, by file."""
    datasets, machine = results["datasets"], results["machine"]
    front = {"benefit": wrap(benefit_sentence(datasets)), "benchmarks": readme_block(results)}
    front["pruning"] = wrap(pruning_sentence(results["compact"]))
    summary = [
        speed_sentences(datasets),
        precision_sentences(datasets),
        memory_sentence(datasets),
        size_sentences(results["shapes"]),
    ]
    scale = scale_report.markdown(extrapolate.kinds(results["sizes"]), level=3, notes=False)
    return {
        HERE.parent / "README.md": front,
        HERE / "RESULTS.md": {
            "machine": f"Measured on {machine['description']}, in {machine['date']}.",
            "summary": "\n".join(wrap(text, "- ") for text in summary if text),
            "peers": measured_sections(datasets, level=3, notes=False),
            "compact": compact_table(results["compact"]),
            "scale": f"{wrap(scale_sentence(results['sizes']))}\n\n{scale}",
        },
    }


def replace_block(text, name, content):
    """Replace what stands between the markers of a block."""
    pattern = re.compile(rf"(<!-- {name}:begin[^>]*-->\n).*?(<!-- {name}:end -->)", re.DOTALL)
    text, count = pattern.subn(lambda match: f"{match[1]}\n{content.strip()}\n\n{match[2]}", text)
    if count != 1:
        raise ValueError(f"{count} blocks {name!r}, expected 1")
    return text


def render(results):
    """Return the new text of each file that has generated parts."""
    rendered = {HERE.parent / "docs" / "sizes.svg": draw_sizes(results["shapes"])}
    for path, parts in blocks(results).items():
        text = path.read_text(encoding="utf-8")
        for name, content in parts.items():
            text = replace_block(text, name, content)
        rendered[path] = text
    return rendered


def draw_plots(results):
    """Draw the figures of RESULTS.md."""
    from plots import draw

    for dataset, of in results["datasets"].items():
        draw(dataset, of["figures"], RESULTS, suffixes=(".svg",))
    scale_report.plot(extrapolate.kinds(results["sizes"]), [RESULTS / "scale.svg"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--no-plots", action="store_true", help="write only text")
    options = parser.parse_args()
    results = load_results()
    for path, text in render(results).items():
        path.write_text(text, encoding="utf-8")
    if not options.no_plots:
        draw_plots(results)


if __name__ == "__main__":
    main()
