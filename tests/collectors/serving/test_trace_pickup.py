"""A trace is taken when nothing of it is missing, and not before."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tracekit.collectors.serving.engines.lightllm import LightLlm
from tracekit.collectors.serving.engines.sglang import Sglang
from tracekit.collectors.serving.engines.vllm import Vllm
from tracekit.collectors.serving.http.trace_pickup import TraceFolder, is_complete
from tracekit.redaction import Redactor

TRACE = json.dumps({"traceEvents": [{"name": f"op {index}"} for index in range(500)]}).encode()


def nothing() -> None:
    pass


def test_every_proper_part_of_a_compressed_trace_is_incomplete(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    data = gzip.compress(TRACE)
    for size in (0, 1, 10, len(data) // 2, len(data) - 8, len(data) - 1):
        path.write_bytes(data[:size])
        assert not is_complete(path)
    path.write_bytes(data)
    assert is_complete(path)


def test_several_members_in_a_row_are_one_trace(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    data = gzip.compress(TRACE[:100]) + gzip.compress(TRACE[100:])
    path.write_bytes(data)
    assert is_complete(path)
    path.write_bytes(data[:-5])
    assert not is_complete(path)


def test_a_damaged_one_is_not_complete(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    data = bytearray(gzip.compress(TRACE))
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    assert not is_complete(path)
    assert not is_complete(tmp_path / "absent.json.gz")


def test_plain_traces_are_compressed_on_the_way(tmp_path: Path) -> None:
    source, target = tmp_path / "from", tmp_path / "to"
    source.mkdir()
    target.mkdir()
    folder = TraceFolder(source, "*.json*", Vllm().trace_order, Redactor([]))
    (source / "rank0.1.pt.trace.json").write_bytes(TRACE)
    assert folder.collect(target, None, 5, nothing) == (["rank0.json.gz"], None)
    assert gzip.decompress((target / "rank0.json.gz").read_bytes()) == TRACE


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    folder = TraceFolder(tmp_path / "no", "*.json*", Vllm().trace_order, Redactor([]))
    traces, note = folder.collect(tmp_path, 1, 0.1, nothing)
    assert traces == []
    assert f"{tmp_path}/no" in str(note)


@pytest.mark.parametrize(
    ("dialect", "names"),
    [
        (
            LightLlm(),
            [
                "lightllm-model_backend-node0_dev2_tid9.1.pt.trace.json.gz",
                "lightllm-model_backend-node0_dev10_tid8.1.pt.trace.json.gz",
                "lightllm-model_backend-node1_dev0_tid7.1.pt.trace.json.gz",
            ],
        ),
        (
            Vllm(),
            [
                "dp0_pp0_tp0_dcp0_ep0_rank2.1.pt.trace.json.gz",
                "dp0_pp0_tp1_dcp0_ep1_rank10.1.pt.trace.json.gz",
            ],
        ),
        (Vllm(), ["host_99.1.pt.trace.json.gz", "host_100.1.pt.trace.json.gz"]),
        (
            Sglang(),
            ["17.5-TP-3-PP-0.trace.json.gz", "17.5-TP-0-PP-1.trace.json.gz"],
        ),
    ],
)
def test_traces_are_in_the_order_of_their_ranks(
    dialect: LightLlm | Vllm | Sglang, names: list[str]
) -> None:
    found = names[::-1]
    found.sort(key=lambda name: dialect.trace_order(name) or ())
    assert found == names


def test_what_is_no_trace_of_a_rank_is_left_out() -> None:
    assert LightLlm().trace_order("other.pt.trace.json.gz") is None
    assert Vllm().trace_order("host_1.async_llm.5.pt.trace.json.gz") is None
    assert Sglang().trace_order("memory.json") is None
