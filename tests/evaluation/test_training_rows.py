"""Test data that has rows of the training data is noticed, by a sketch of the training rows in the model."""

import base64
import json
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from forgery import edit, read_files, seal, write
from helpers import make_data, train_small

from labeltree import Dataset, InputError, load
from labeltree.evaluation.sketch import MAX_KEYS, RowSketch
from labeltree.model.labeled_data import validation_data


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "model"
    train_small(path, make_data(400), trees=1)
    return path


@pytest.fixture
def model(place):
    return load(place)


def stacked(one, other):
    return Dataset.from_matrices(sp.vstack([one.X, other.X]), sp.vstack([one.Y, other.Y]))


def test_training_data_is_noticed_in_any_order(model):
    train, other = make_data(400), make_data(400, seed=5)
    rows = np.random.default_rng(0).permutation(train.n_instances)
    # The values of features do not matter, nor does the order of rows, nor a part that is left out.
    for data in (train, Dataset.from_matrices(train.X[rows[:300]] * 2, train.Y[rows[:300]])):
        with pytest.warns(UserWarning, match="^The data looks like the training data: 100% of the rows have"):
            validation_data(data, model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        validation_data(other, model)


def test_evaluate_tells_how_many_rows_are_known(place, model):
    train, other = make_data(400), make_data(270, seed=5)
    known = load(place).evaluate(other).rows_in_training  # rows of few features coincide by chance
    part = Dataset.from_matrices(train.X[:30], train.Y[:30])
    found = model.evaluate(stacked(part, other))
    assert found.rows_in_training == pytest.approx((30 + known * 270) / 300)
    assert repr(found).endswith(f", rows=300, rows_in_training={found.rows_in_training:.4g})")
    assert found.to_dict()["rows_in_training"] == found.rows_in_training
    with pytest.warns(UserWarning, match="so these figures do not show what to expect on other data"):
        assert model.evaluate(part).rows_in_training == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.evaluate(other).rows_in_training == known < 0.3
        assert model.evaluate(Dataset.from_matrices(train.X[:9], train.Y[:9])).rows_in_training is None


def test_the_command_notes_it(run, folder, tmp_path):
    lines = (folder / "train.svm").read_text().splitlines(), (folder / "test.svm").read_text().splitlines()
    (tmp_path / "t.svm").write_text("\n".join([*lines[1][:41], *lines[0][1:11]]) + "\n")
    code, out, err = run("evaluate", folder / "model", tmp_path / "t.svm", "--json")
    share = json.loads(out)["rows_in_training"]
    assert (code, 0.2 < share < 0.5) == (0, True)
    repeated = load(folder / "model").row_sketch.repeated
    shown = f"note: {share:.0%} of the rows have the same features as a training row of the model; "
    assert err == f"{shown}{repeated:.0%} of the training rows repeat another one.\n"
    code, out, err = run("evaluate", folder / "model", folder / "train.svm", "--json")
    assert (code, json.loads(out)["rows_in_training"]) == (0, 1)
    assert "note: The data looks like the training data: 100% of the rows have the same features as a" in err
    err = run("compare", folder / "model", folder / "model", folder / "train.svm")[2]
    assert err.count("looks like the training data") == err.count("a training row of every model") == 1


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_share_is_estimated_for_more_rows(share):
    rng = np.random.default_rng(1)
    train, other = (sp.random(20_000, 500, 0.02, "csr", np.float32, rng=rng) for _ in range(2))
    sketch = RowSketch.stored(RowSketch.of(sp.vstack([train, train[:5000]]).tocsr()).entry())
    assert sketch.keys.size == MAX_KEYS
    assert sketch.repeated == 0.4  # of 25,000
    known = round(share * 8000)
    found, compared = sketch.share(sp.vstack([train[:known], other[known:8000]]).tocsr())
    assert found == pytest.approx(share, abs=0.06)
    assert 300 < compared < 520


def test_rows_without_features_have_no_key():
    nothing = sp.csr_matrix((50, 3), dtype=np.float32)
    sketch = RowSketch.of(nothing)
    assert sketch.entry() == {"keys": "", "repeated": 0.0}
    assert sketch.share(nothing) is None


def keys(*values):
    return base64.b64encode(np.array(values, "<u8").tobytes()).decode()


@pytest.mark.parametrize(
    "sketch", ["?", "AAAA", 5, None, keys(0, 1), keys(2, 1), keys(1, 1), keys(*range(1, MAX_KEYS + 2))]
)
def test_a_forged_sketch_is_refused(place, tmp_path, sketch):
    files = read_files(place)
    edit(files, row_sketch={"keys": sketch, "repeated": 0.0})
    seal(files)
    write(files, tmp_path / "model")
    with pytest.raises(InputError, match=r"row_sketch.keys is .*, expected increasing keys in Base64"):
        load(tmp_path / "model")


def test_a_model_without_a_sketch_evaluates(place, tmp_path):
    files = read_files(place)
    manifest = json.loads(files["manifest.json"])
    del manifest["row_sketch"]
    files["manifest.json"] = json.dumps(manifest).encode()
    seal(files)
    write(files, tmp_path / "model")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(tmp_path / "model").evaluate(make_data(400)).rows_in_training is None
