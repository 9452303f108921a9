"""Analysis gemms on the file of a model; small traces are in tests/cases/gemms.case."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import tracekit

Opened = Callable[[Path], tracekit.Trace]


def test_products_of_a_model_against_the_file(public_traces: Path, opened: Opened) -> None:
    """Every product of an H100 trace, its operations and its time, from the JSON again."""
    path = public_traces / "tl_h100_owlv2_large.json.gz"
    with gzip.open(path) as file:
        events = json.load(file, parse_float=Decimal)["traceEvents"]
    ops = {}
    kernels: dict[int, int] = defaultdict(int)
    for event in events:
        args = event.get("args", {})
        if event.get("cat") == "cpu_op" and event["name"] in (
            "aten::mm",
            "aten::addmm",
            "aten::bmm",
        ):
            ops[args["External id"]] = (event["name"], args["Input Dims"])
        # The library clears its workspace first: that is the product's time, too.
        if event.get("cat") in ("kernel", "gpu_memset"):
            kernels[args["External id"]] += int(event["dur"] * 1000)
    expected: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0])
    for external_id, (name, dims) in ops.items():
        a, b = dims[1:3] if name == "aten::addmm" else dims[:2]
        size = (a[-2], b[-1], a[-1], a[0] if name == "aten::bmm" else 1)
        expected[name, *size][0] += 1
        expected[name, *size][1] += kernels[external_id]
    found = {}
    for row in opened(path).query("gemms", limit=0).to_dicts():
        assert row["reason"] is None
        key = tuple(row[column] for column in ("op_name", "m", "n", "k", "batch"))
        count, kernel_ns = found.get(key, (0, 0))
        found[key] = [count + row["call_count"], kernel_ns + row["kernel_ns"]]
    assert found == expected
