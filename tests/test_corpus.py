"""All inputs that failed in fuzzing pass."""

import importlib.util
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = sorted(path for path in (HERE / "corpus").glob("*/*") if path.is_file())


def load_targets():
    spec = importlib.util.spec_from_file_location("fuzz_targets", HERE / "fuzz" / "targets.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


TARGETS = load_targets().TARGETS


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_input(path):
    TARGETS[path.parent.name].check(path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_has_inputs(name):
    assert any(path.parent.name == name for path in FILES)
