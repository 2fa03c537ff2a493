"""What was read: counts, the most frequent labels, examples of terms, and what looks like a mistake."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence, Set
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from labeltree.base.display import in_list
from labeltree.base.options import ReadingOptions, shows
from labeltree.data.dataset import Dataset
from labeltree.data.inputs import open_data

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from labeltree.data.inputs import Data, Labels

_FREQUENT = 5
_EXAMPLES = 8
# Labels rarely contain one of these, except where they were to be separated by it.
_SEPARATORS = (";", "|", ",", "/")
# These occur in names that also contain spaces, such as "a > b".
_IN_NAMES = (" > ", " - ")
# Titles have quotes and brackets in pairs, before which there is a space, or nothing.
_PAIRED = re.compile(r"""(?<!\S)(?:(["'])(?:(?!\1).)+\1|\([^()]*\)|\[[^][\"']*\])(?!\w)""")
_ENCLOSED = re.compile(r"""^[\["'(]|[\]"')]$""")
# Words of a line that names columns.
_HEADER = re.compile(
    r"id|labels?|tags?|category|categories|class(es)?|topics?|subjects?|texts?|titles?|body|abstract|"
    r"contents?|description|documents?|sentence",
    re.IGNORECASE,
)


class FrequentLabel(TypedDict):
    """A label and the number of its rows."""

    label: str
    rows: int


class DataSummary(TypedDict):
    """What was read."""

    rows: int
    labels: int
    features: int
    labels_per_row: float
    most_labels_per_row: int
    rows_without_labels: int
    rows_without_features: int
    skipped_rows: int
    dropped_labels: int
    labels_without_rows: int
    labels_with_one_row: int
    frequent_labels: list[FrequentLabel]
    terms: list[str] | None
    warnings: list[str]


def as_arguments(separator: str, format: str | None) -> str:
    """Return how to set a separator of labels in Python, and a format unless it is None."""
    return f"separator={separator!r}" if format is None else f"format={format!r}, separator={separator!r}"


# Returns how to set a separator of labels, and a format unless it is None.
Spell = Callable[[str, str | None], str]


@shows(ReadingOptions)
def describe_data(
    data: Data,
    labels: Labels = None,
    *,
    text: str | Sequence[str] | None = None,
    threads: int | None = None,
    spell: Spell | None = None,
    **reading: Unpack[ReadingOptions],
) -> DataSummary:
    """Describe data before it is used: its size, its most frequent labels, and what looks like a mistake.

    Parameters
    ----------
    data, labels, text, threads, **reading
        As in :func:`labeltree.read_data`.
    spell : callable, optional
        Writes the parameters that warnings name: takes a separator of labels, and a format or None. Default:
        as arguments of `labeltree.read_data`.

    Returns
    -------
    dict
        ``rows``, ``labels``, ``features``; ``labels_per_row`` (the mean) and ``most_labels_per_row``;
        ``rows_without_labels``, ``rows_without_features`` (no known term) and ``skipped_rows`` (no text at
        all); ``dropped_labels``, those with too few rows; ``labels_without_rows`` and
        ``labels_with_one_row``; ``frequent_labels``, the five most frequent; ``terms``, examples from
        frequent to rare, None if the data is not text; ``warnings``, sentences about what looks wrong.

    Examples
    --------
    >>> data = Dataset.from_matrices([[1, 0], [0, 1]], [[1, 0], [1, 0]], ["a", "b"])
    >>> describe_data(data)["frequent_labels"]
    [{'label': 'a', 'rows': 2}]
    """
    dataset = open_data(data, labels, text=text, **reading).dataset(threads=threads)
    counts = np.diff(dataset.by_label[0])
    per_row, filled = np.diff(dataset.Y.indptr), np.diff(dataset.X.indptr)
    name = str if dataset.label_names is None else dataset.label_names.__getitem__
    frequent = [j for j in np.argsort(-counts, kind="stable")[:_FREQUENT].tolist() if counts[j]]
    return {
        "rows": dataset.n_instances,
        "labels": dataset.n_labels,
        "features": dataset.n_features,
        "labels_per_row": float(per_row.mean()),
        "most_labels_per_row": int(per_row.max()),
        "rows_without_labels": int((per_row == 0).sum()),
        "rows_without_features": int((filled == 0).sum()),
        "skipped_rows": dataset.n_skipped,
        "dropped_labels": dataset.n_dropped,
        "labels_without_rows": int((counts == 0).sum()),
        "labels_with_one_row": int((counts == 1).sum()),
        "frequent_labels": [{"label": name(j), "rows": int(counts[j])} for j in frequent],
        "terms": _terms(dataset),
        "warnings": list(_warnings(dataset, spell or as_arguments)),
    }


def _terms(dataset: Dataset) -> list[str] | None:
    """Return examples of terms, from the most frequent to rare ones."""
    if dataset.text is None:
        return None
    names = dataset.text.names
    order = np.argsort(-np.bincount(dataset.X.indices, minlength=len(names)), kind="stable")
    ranks = np.unique(np.geomspace(1, len(names), _EXAMPLES).round().astype(int)) - 1
    return [names[order[rank]] for rank in ranks.tolist()]


def _warnings(dataset: Dataset, spell: Spell) -> Iterator[str]:
    if dataset.n_skipped:
        yield (
            f"{_count(dataset.n_skipped, 'row has', 'rows have')} no text and "
            f"{'was' if dataset.n_skipped == 1 else 'were'} skipped."
        )
    yield from dataset.notes
    unlabeled = int((np.diff(dataset.Y.indptr) == 0).sum())
    if 2 * unlabeled > dataset.n_instances:
        why = f" with at least {dataset.least_rows:,} rows (min_label_count)" if dataset.n_dropped else ""
        yield f"{unlabeled:,} of {dataset.n_instances:,} rows have no labels{why}."
    yield from suspicions(dataset, spell)


def suspicions(dataset: Dataset, spell: Spell, model: Any | None = None) -> Iterator[str]:
    """Yield warnings of labels and features that look as if the data had been read wrongly.

    If it was read for a model, labels that the model knows are not suspicious.
    """
    used = np.flatnonzero(np.diff(dataset.by_label[0]))
    names = [] if dataset.label_names is None else [dataset.label_names[j] for j in used.tolist()]
    known: set[str] = set()
    if names and model is not None:
        known.update(map(str, range(model.n_labels)) if model.label_names is None else model.label_names)
    yield from _header(dataset, known, spell)
    yield from _separators(names, known, dataset, spell)
    n_rows, empty = dataset.n_instances, int((np.diff(dataset.X.indptr) == 0).sum())
    if 2 * empty > n_rows:
        yield f"{empty:,} of {n_rows:,} rows have no {'known term' if dataset.text else 'features'}."


def _header(dataset: Dataset, known: Set[str], spell: Spell) -> Iterator[str]:
    """Warn of a first line of a TSV file that names the columns: its labels and terms are such names."""
    first, counts = dataset.Y[0].indices, np.diff(dataset.by_label[0])
    if not (dataset.text and dataset.label_names and first.size and (counts[first] == 1).all()):
        return
    labels = [dataset.label_names[j] for j in first.tolist()]
    words = [dataset.text.names[j] for j in dataset.X[0].indices.tolist()]
    if words and known.isdisjoint(labels) and all(map(_HEADER.fullmatch, [*labels, *words])):
        separator = (dataset.text.columns.separators or " ")[0]
        yield (
            f"The first document looks like a header line: its label is {labels[0]!r}. A TSV file has no "
            f"header. If this is one, remove it, or use {spell(separator, 'csv')}."
        )


def _separators(names: Sequence[str], known: Set[str], dataset: Dataset, spell: Spell) -> Iterator[str]:
    """Warn of labels that look as if they had been separated by something else, or not at all."""
    unknown = [name for name in names if name not in known]
    if not unknown:
        return
    enclosed = [name for name in unknown if _ENCLOSED.search(name)]
    titles = [name for name in enclosed if not _ENCLOSED.search(_PAIRED.sub("", name))]
    if 20 * (len(enclosed) - len(titles)) >= len(names) or 2 * len(titles) >= len(names):
        yield (
            f"{len(enclosed):,} of {len(names):,} labels begin or end with a quote or bracket, such as "
            f"{enclosed[0]!r}. If they are parts of printed lists, write the lists as JSONL."
        )
    single = int(np.diff(dataset.Y.indptr).max(initial=0)) <= 1
    for separator in (*_SEPARATORS, *((" ",) if single else ())):
        suspicious = _joined(names, unknown, separator, single)
        if suspicious:
            quoted = "a space" if separator == " " else repr(separator)
            more = "Every row has a single label, and many" if single else "Many labels"
            yield (
                f"{more} contain {quoted}, such as {suspicious!r}. If {quoted} separates labels, use "
                f"{spell(separator, None)}."
            )
            return


def _joined(names: Sequence[str], unknown: Sequence[str], separator: str, single: bool) -> str | None:
    """Return a label that looks like several, if there are many of which parts occur again and again."""
    within = [name for name in unknown if separator in name.strip(separator)]
    if separator == "/" and any("://" in name for name in within):  # URIs
        return None
    if separator == " ":  # "a > b" is not separated by spaces
        within = [name for name in within if not any(other in name for other in _IN_NAMES)]
    if len(within) < max(2, len(names) / 5):
        return None
    if single and separator in ";|" and 2 * len(within) >= len(names):
        return within[0]  # whatever the parts: rare labels hardly occur again
    split = [part.strip() for name in names for part in name.split(separator)]
    parts = len(set(split))
    # Joined labels are many combinations of few parts; names with a comma have parts of their own.
    if separator == " ":  # words occur in several names, too
        return within[0] if 2 * parts < len(names) or 4 * parts <= len(split) else None
    return within[0] if parts < (1.0 if single else 0.8) * len(names) else None


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def summary_lines(summary: DataSummary) -> list[str]:
    """Return the lines that show what was read, without the warnings."""
    rows, empty = _count(summary["rows"], "row", "rows"), summary["rows_without_features"]
    kind = "features" if summary["terms"] is None else "known term"
    notes = [
        f"{summary['rows_without_labels']:,} without labels" if summary["rows_without_labels"] else "",
        f"{empty:,} without {kind}" if empty else "",
        f"{summary['skipped_rows']:,} more skipped" if summary["skipped_rows"] else "",
    ]
    per_row = f"{summary['labels_per_row']:.2f} per row, at most {summary['most_labels_per_row']:,}"
    rare = f"{summary['labels_with_one_row']:,} with one row"
    unused, dropped = summary["labels_without_rows"], summary["dropped_labels"]
    lines = [
        f"rows    {', '.join([rows, *filter(None, notes)])}",
        f"labels  {summary['labels']:,}, {per_row}; {rare}{f', {unused:,} with none' if unused else ''}"
        f"{f', {dropped:,} rare ones dropped' if dropped else ''}",
    ]
    if summary["labels"] - unused > summary["rows"]:
        lines.append("        More labels than rows: if that is wrong, check how labels are separated.")
    if frequent := summary["frequent_labels"]:
        shown = ", ".join(f"{in_list(item['label'])} ({item['rows']:,})" for item in frequent)
        lines.append(f"most    {shown}")
    if summary["terms"] is not None:
        lines.append(f"terms   {summary['features']:,}, such as {', '.join(summary['terms'])}")
    return lines
