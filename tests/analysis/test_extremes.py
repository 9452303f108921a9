"""Numbers of any size in a file: nothing overflows, and no command crashes."""

import pytest
from traces_by_hand import call, memory, span

import tracekit
from tracekit.analysis.catalog import load_catalog
from tracekit.errors import QueryError

_EPOCH_US = 1_700_000_000_000_000
_OPS = (
    *(("aten::mm", 2, 2), ("aten::bmm", 2, 3), ("aten::add", 2, 2), ("aten::convolution", 2, 4)),
    *(("aten::_scaled_dot_product_flash_attention", 3, 4), ("aten::sum", 1, 2)),
    *(("aten::embedding", 2, 2), ("aten::linear", 2, 2)),
)


def _launched(number, ts, name, **args):
    given = {"device": 0, "stream": 7, "correlation": number, **args}
    return [call(ts, ts + 10, number), span("kernel", name, ts, ts + 10, 7, pid=0, **given)]


def _extremes():
    events = _launched(1, 0, "first")
    number = 1
    for size in (2**31, 2**62, -(2**62)):
        for name, tensors, dims in _OPS:
            number += 1
            ts = _EPOCH_US + 40 * number
            args = {"Input Dims": [[size] * dims] * tensors, "Input type": ["float"] * tensors}
            args["Concrete Inputs"] = [""] * tensors
            events.append(span("cpu_op", name, ts, ts + 30, **args))
            events += _launched(number, ts + 2, "gemm")
        number += 1
        args = {"Collective name": "allreduce", "Group size": 2, "dtype": "Float"}
        args |= {"In msg nelems": size, "Out msg nelems": size}
        ts = _EPOCH_US + 40 * number
        events += _launched(number, ts, "ncclDevKernel_AllReduce_Sum_f32", **args)
    return events


def _larger():
    """Return events with the largest numbers that a file can contain."""
    events = []
    for number, size in enumerate((2**31, 2**62, 2**63 - 1, -(2**62), 1e300), 1000):
        ts = _EPOCH_US + 200 * number
        here = {"ph": "X", "pid": 1, "tid": 1, "ts": ts, "dur": 30}
        for place, name in enumerate(("big grid", "Memcpy HtoD (Pageable -> Device)", "AllToAll")):
            kernel = {"grid": [size, 1, 1], "block": [size, 1, 1], "bytes": size, "queued": size}
            kernel |= {"memory bandwidth (GB/s)": size, "est. achieved occupancy %": size}
            kernel |= {"Collective name": "all_to_allv", "Group size": size, "Seq": size}
            kernel |= {"In split size": f"[{size}]", "Process Group Ranks": f"[{size}]"}
            # Streams and devices of unusual numbers, next to usual ones.
            kernel |= {"stream": size} if place else {"device": size}
            found = _launched(10 * number + place, ts + 30 * place, name, **kernel)
            found[1]["cat"] = "gpu_memcpy" if place == 1 else "kernel"
            events += found
        events += _launched(int(size), ts + 120, "its correlation")
        op = {"Sequence number": size, "Fwd thread id": size, "External id": size}
        call = {"Python id": size, "Python parent id": size, "Python module id": size}
        events += [
            {**here, "cat": "cpu_op", "name": "aten::mm", "args": op},
            {**here, "cat": "python_function", "name": "nn.Module: A_0", "args": call},
            {**here, "cat": "cuda_runtime", "name": "cudaStreamWaitEvent", "pid": size},
            *(
                {**here, "cat": "user_annotation", "name": name.format(size)}
                for name in ("ProfilerStep#{}", "tk/step/{}", "tk/batch/{}", "layers.{}.mlp")
            ),
        ]
        sizes = dict.fromkeys(("Addr", "Bytes", "Total Allocated", "Total Reserved"), size)
        events.append(memory(ts, **sizes, **{"Device Id": 0, "Device Type": 1}))
    return events


@pytest.fixture
def path(tiny_trace):
    return tiny_trace(_extremes() + _larger(), distributedInfo={"rank": 0, "world_size": 2})


@pytest.mark.nightly("asks every analysis")
def test_no_analysis_of_extreme_numbers_crashes(path):
    with tracekit.open(path, cache=False) as trace:
        for spec in load_catalog().analyses.values():
            params = {"kernel": "gemm"} if spec.needs else {}
            assert params or not any(param.is_required for param in spec.params)
            if spec.scope == "runs":
                with pytest.raises(QueryError, match=spec.name):
                    trace.query(spec.name)
            else:
                trace.query(spec.name, **params).to_dicts()
        gemms = trace.query("gemms").to_dicts()
    # FLOPs of matrices of 2^31 by 2^31 and larger ones are not counted.
    assert gemms
    assert {row["flops"] for row in gemms} == {None}


@pytest.mark.nightly("all reports of one trace; the gate runs the analyses behind them")
def test_no_command_crashes(path, cli, tmp_path):
    for exit_code, *command in (
        (0, "breakdown", path, "--full"),
        (0, "report", path, "-o", tmp_path / "report.html"),
        (0, "export", "perfetto", path, "-o", tmp_path / "trace.pftrace"),
        (0, "export", path, "-o", tmp_path / "exported.pftrace"),
        (0, "query", "why", path, "--kernel", "gemm"),
        # The peak rate is unknown.
        (7, "check", path, "--rule", "mfu >= 0.4"),
        (0, "compare", path, path),
    ):
        done = cli(*command)
        assert done.exit_code == exit_code, (command, done.stderr)
        assert "Traceback" not in done.stderr
        assert "error:" not in done.stderr
