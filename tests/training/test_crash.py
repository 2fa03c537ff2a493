"""The short form of `make crash`: interrupted runs are continued to the same bytes."""

import random
import shutil
import sys

import crash
import pytest

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("cc") is None, reason="needs cc and LD_PRELOAD"
)


@pytest.fixture(scope="module", params=[0, 3])
def trial(tmp_path_factory, request):
    return crash.Trial(tmp_path_factory.mktemp("crash"), rows=400, hard_negatives=request.param)


def test_kills_at_random_moments(trial, capsys):
    crash.kill_at_random(trial, 3, random.Random(0), longest=1.0)
    assert "kills at random moments" in capsys.readouterr().out


def test_calls_that_fail(trial, capsys):
    crash.fail_calls(trial, 2, random.Random(0))
    assert capsys.readouterr().out.startswith("2 failing calls")


def test_kills_at_calls_of_a_replacement(trial, capsys):
    crash.kill_at_calls(trial, 2)
    assert "of train --overwrite" in capsys.readouterr().out


def test_a_changed_model_is_noticed(trial):
    model = trial.fresh()
    trial.run(model, crash.FORMS[0]).check_returncode()
    (model / "label_counts.npy").write_bytes(b"")
    assert crash.contents(model) != trial.expected[crash.FORMS[0]]
