"""Ops with malformed arguments have unknown values, and do not affect other ops."""

import re
from dataclasses import dataclass
from typing import Any

import pytest
from cases_as_ranks import opened_as_ranks, rows_by_rank
from traces_by_hand import call, kernel, span

from tracekit.export.perfetto import export_perfetto

MEMBERS = ["Input Dims", "Input type", "Concrete Inputs", "Input Strides"]
ARGUMENTS = ["no JSON", "[1,", {"a": 1}, 7, [[1, "a"], {"b": [2]}]]


def flops_of(number):
    """Return the operations of a product in the trace of a number: no other trace has as many."""
    return 2 * 4 * (8 + number) * 16


def events_with(argument, number):
    """Return ops; all except the first have an unusual value, each in another member."""
    dims = [[4, 8 + number], [8 + number, 16]]
    shapes = {"Input Dims": dims, "Input type": ["float", "float"]}
    events = []
    for place, member in enumerate([None, *MEMBERS]):
        at = 20 * place
        args = shapes if member is None else {**shapes, member: argument}
        events += [
            span("cpu_op", "aten::mm", at, at + 10, **args),
            call(at + 1, at + 3, place + 1),
            kernel("gemm", at + 4, at + 9, place + 1),
        ]
    return events


@dataclass(frozen=True, slots=True)
class Answers:
    """GEMMs of the traces, and the number of events and the bytes of their export."""

    gemms: dict[int, list[dict[str, Any]]]
    event_count: int
    exported: bytes


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Ask all traces as the ranks of one run: each says one of `ARGUMENTS`."""
    cases = [events_with(argument, number) for number, argument in enumerate(ARGUMENTS)]
    with opened_as_ranks(tmp_path_factory.mktemp("odd"), cases) as trace:
        blocks = []
        event_count = export_perfetto(trace, blocks.append).event_count
        for name in ("mfu", "compute_memory"):
            trace.query(name)
        return Answers(rows_by_rank(trace, "gemms"), event_count, b"".join(blocks))


@pytest.mark.parametrize("number", range(len(ARGUMENTS)), ids=map(str, ARGUMENTS))
def test_an_odd_argument_does_not_affect_other_ops(answers, number):
    flops = [row["flops"] for row in answers.gemms[number] if row["flops"]]
    assert sum(flops) >= flops_of(number)
    assert answers.event_count == 15 * len(ARGUMENTS)
    assert re.search(b'"op_flops":%d\\b' % flops_of(number), answers.exported)
