"""What a file says may be as large as it likes: nothing overflows, no command ends in a bug."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import tracekit
from tracekit.analysis.catalog import load_catalog
from tracekit.errors import TracekitError

_EPOCH_US = 1_700_000_000_000_000
_OPS = (
    *(("aten::mm", 2, 2), ("aten::bmm", 2, 3), ("aten::add", 2, 2), ("aten::convolution", 2, 4)),
    *(("aten::_scaled_dot_product_flash_attention", 3, 4), ("aten::sum", 1, 2)),
    *(("aten::embedding", 2, 2), ("aten::linear", 2, 2)),
)


def _launched(number: int, ts: int, name: str, **args: Any) -> list[dict[str, Any]]:
    common = {"ph": "X", "ts": ts, "dur": 10, "name": name}
    kernel = {"device": 0, "stream": 7, "correlation": number, **args}
    launch = {"correlation": number}
    return [
        {**common, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1}
        | {"args": launch},
        {**common, "cat": "kernel", "pid": 0, "tid": 7, "args": kernel},
    ]


def _extremes() -> list[dict[str, Any]]:
    events = _launched(1, 0, "first")
    number = 1
    for size in (2**31, 2**62, -(2**62)):
        for name, tensors, dims in _OPS:
            number += 1
            ts = _EPOCH_US + 40 * number
            args = {"Input Dims": [[size] * dims] * tensors, "Input type": ["float"] * tensors}
            events.append(
                {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": 30}
                | {"args": args | {"Concrete Inputs": [""] * tensors}}
            )
            events += _launched(number, ts + 2, "gemm")
        number += 1
        said = {"In msg nelems": size, "Out msg nelems": size, "Group size": 2, "dtype": "Float"}
        name = "ncclDevKernel_AllReduce_Sum_f32"
        said["Collective name"] = "allreduce"
        events += _launched(number, _EPOCH_US + 40 * number, name, **said)
    return events


def test_no_analysis_of_a_file_of_extremes_is_a_bug(
    tiny_trace: Callable[..., Path], cli: Callable[..., Any], tmp_path: Path
) -> None:
    path = tiny_trace(_extremes(), distributedInfo={"rank": 0, "world_size": 2})
    with tracekit.open(path, cache=False) as trace:
        for spec in load_catalog().analyses.values():
            if any(param.is_required for param in spec.params):
                continue
            with suppress(TracekitError):
                trace.query(spec.name).to_dicts()
        gemms = trace.query("gemms").to_dicts()
    # Of a matrix of 2^31 by 2^31 and larger ones no operations are counted.
    assert gemms
    assert {row["flops"] for row in gemms} == {None}
    for command in (
        ("breakdown", path, "--full"),
        ("report", path, "-o", tmp_path / "report.html"),
        ("export", "perfetto", path, "-o", tmp_path / "trace.pftrace"),
        ("check", path, "--rule", "mfu >= 0.4"),
        ("compare", path, path),
    ):
        done = cli(*command)
        assert done.exit_code != 70, (command, done.stderr)
        assert "Traceback" not in done.stderr
