"""Find datasets: one directory each, with train.svm and test.svm, plain or compressed."""

from pathlib import Path

SUFFIXES = ("", ".bz2", ".gz", ".xz")


def find_split(folder, split):
    """Return the file of a split, or None."""
    paths = [Path(folder, f"{split}.svm{suffix}") for suffix in SUFFIXES]
    return next((path for path in paths if path.is_file()), None)


def find_datasets(folder):
    """Return the directories that hold both splits, by name."""
    places = sorted(Path(folder).iterdir()) if Path(folder).is_dir() else []
    return {place.name: place for place in places if all(find_split(place, s) for s in ("train", "test"))}
