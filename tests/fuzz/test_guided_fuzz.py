"""Inputs that fuzzing found to reach code of their own are refused or work; see tools/guided_fuzz.py."""

import guided_fuzz
import pytest


@pytest.mark.parametrize("target", [*guided_fuzz.READERS, "model"])
def test_kept_inputs(target, tmp_path):
    attempt, seeds = guided_fuzz.prepared(target, tmp_path)
    kept = sorted((guided_fuzz.CORPUS / target).iterdir())
    assert kept
    for content in [*seeds, *(path.read_bytes() for path in kept)]:
        attempt(content)


def test_modules_can_be_imported_without_annif():
    guided_fuzz.import_everything()


def test_models_are_packed_and_unpacked():
    files = {"manifest.json": b"{}", "tree-0/weights.npy": bytes(1000), "empty": b""}
    packed = guided_fuzz.pack(files)
    assert guided_fuzz.unpack(packed) == files
    hostile = guided_fuzz.unpack(packed.replace(b"tree-0/", b"/../../"))
    assert not any(name.startswith("/") or ".." in name for name in hostile)
