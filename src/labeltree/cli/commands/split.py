"""`labeltree split`: training, test and validation rows with the same share of every label."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from labeltree.base import limits
from labeltree.cli import options, printing
from labeltree.cli.reading import DataFile, Reading
from labeltree.settings import DEFAULT_SHARE


def split(
    data: list[str],
    out: Path,
    *,
    reading: Reading,
    test: Annotated[float, limits.TEST_SHARE] = DEFAULT_SHARE,
    validation: Annotated[float | None, limits.TEST_SHARE] = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    overwrite: bool = False,
    display: printing.Display,
) -> None:
    """Split labeled data into training and test rows.

    Each part has about the same share of every label, also of rare ones. Rows with the same text are put into
    the same part. Lines of text files are copied as they are, and several files are split as one.

    Parameters
    ----------
    out : DIR
        Directory for the parts, such as train.tsv and test.tsv.
    test : SHARE
        Share of the rows in the test part. Default: 0.1.
    validation : SHARE
        Share of the rows in a validation part. Default: there is none.
    """
    from labeltree import verbs

    source = DataFile(data, reading)  # refuses options that do not match the data
    with display.stage("split", f"splitting {source.name}"):
        found = verbs.split(
            [Path(name) for name in data],
            path=out,
            test=test,
            validation=validation,
            seed=seed,
            threads=threads,
            overwrite=overwrite,
            **reading.keywords(),
        )
    rows = (printing.plural(count, "row") for count in found.rows.values())
    lines = printing.facts(zip(map(str, found), rows, strict=True))
    if found.compared_labels:
        labels = printing.plural(found.compared_labels, "label")
        lines.append(
            f"Shares of labels differ from those of the parts by at most {found.largest_error:.2%} "
            f"({labels} with 20 or more rows)."
        )
    display.show(found.to_dict(), lines)
