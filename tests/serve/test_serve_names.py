"""Names of labels in one string: as JSON, and searched."""

import json

import numpy as np
import pytest

from labeltree.serve.names import LabelNames

NAMES = ["Straße", "sea", 'a "quoted" name', "", "\0x", "ŞEA", "tab\there", "aa"]


def test_json():
    names = LabelNames(NAMES, len(NAMES))
    assert [json.loads(names.json(label)) for label in range(len(NAMES))] == NAMES
    assert LabelNames(None, 3).json(2) == "null"


@pytest.mark.parametrize("part", ["", "a", "A", "STRASSE", "ea", "\0", "\0x", "aaa", '"', ".*", "x\0"])
def test_search(part):
    names = LabelNames(NAMES, len(NAMES))
    wanted = [part.casefold() in name.casefold() for name in NAMES]
    for _ in range(2):
        assert names.containing(part).tolist() == wanted


def test_search_of_numbers():
    names = LabelNames(None, 130)
    for part in ("12", "0", "130", "-1"):
        assert np.flatnonzero(names.containing(part)).tolist() == [j for j in range(130) if part in str(j)]
