"""The plan of the three parts: complete, and of things that are there."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from evidence import _plan
from evidence.items import methods
from evidence.items.train import layers_that_fit

EVIDENCE = Path(_plan.__file__).parent
GIB = 2**30


@pytest.fixture(params=(1, 2, 3))
def items(request: pytest.FixtureRequest) -> list[_plan.Item]:
    return _plan.items(request.param)


def test_items_have_names_and_scripts_of_their_own(items: list[_plan.Item]) -> None:
    assert len({item.slug for item in items}) == len(items)
    for item in items:
        assert (EVIDENCE / "items" / f"{item.script}.py").is_file()
        assert item.limit_s < 9 * 60
        if item.after is not None:
            names = [other.name for other in items]
            assert names.index(item.after) < names.index(item.name)
    # What looks at all others comes last.
    last = [item.is_last for item in items]
    assert last == sorted(last)


def test_loops_are_there() -> None:
    programs = {item.arguments["program"] for item in _plan.items(1) if item.script == "loop"}
    assert {f"{name}.py" for name in programs} | {"small.py"} == {
        path.name for path in (EVIDENCE / "loops").glob("*.py")
    }


def test_every_method_and_engine_of_the_collectors_tests_is_tried() -> None:
    path = Path(__file__).parents[1] / "collectors" / "conftest.py"
    spec = importlib.util.spec_from_file_location("collectors_conftest", path)
    assert spec is not None
    assert spec.loader is not None
    conftest = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = conftest
    spec.loader.exec_module(conftest)
    groups = [item.arguments["group"] for item in _plan.items(1) if item.script == "methods"]
    tried = {name: case for group in groups for name, case in methods.cases(group).items()}
    known: dict[str, dict[str, Any]] = conftest.CASES
    assert set(known) - set(tried) - SAME_AS_OTHERS == set()
    for name in set(known) & set(tried):
        assert with_stage(tried[name]) == with_stage(known[name])


SAME_AS_OTHERS: set[str] = set()


def with_stage(case: dict[str, Any]) -> dict[str, Any]:
    return {"stage": "pretrain", **case}


@pytest.mark.parametrize(
    ("opt", "batch_size", "memory_bytes", "layers"),
    [
        # Weights, gradients and two moments in bf16 are 54 GB of 80.
        ("Naive", 2, 80 * GIB, 32),
        ("R", 32, 80 * GIB, 32),
        ("L", 1, 80 * GIB, 32),
        ("QL", 1, 24 * GIB, 32),
        ("Naive", 1, 4 * GIB, 1),
    ],
)
def test_layers_that_fit(opt: str, batch_size: int, memory_bytes: int, layers: int) -> None:
    assert layers_that_fit({"opt": opt, "batch_size": batch_size}, memory_bytes) == layers


def test_states_in_single_precision_leave_room_for_fewer_layers() -> None:
    found = layers_that_fit({"opt": "R+Z3", "batch_size": 32}, 80 * GIB)
    # 18 bytes a parameter, 3.6 GB a layer.
    assert 10 <= found <= 18
    assert layers_that_fit({"opt": "R+Z3", "batch_size": 32}, 141 * GIB) > found
