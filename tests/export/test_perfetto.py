"""Perfetto's engine reads an export back, and the result equals the store."""

import os

import pytest
from every_trace import FOLDER
from perfetto_engine import engine_folder
from perfetto_read_back import check_read_back

FILES = [
    "hta_mi250_toy_train.json.gz",
    "hta_alexnet_cudasync.json.gz",
    "hta_cpu_only.json.gz",
    "hta_sampled_rank0_noflows.json.gz",
    "cpu_llama_ckpt_module_ranges.json.gz",
    "deepseek_train_h800.json.gz",
    "tl_mi300_sglang_decode_graph.json.gz",
    "tl_h100_qwen.json.gz",
]
"""Small public traces of different kinds; with TRACEKIT_ALL_TRACES=1, all that there are. Those of
other programs that write the format in their own way are always among them."""


def _files():
    if os.environ.get("TRACEKIT_ALL_TRACES"):
        found = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.json.gz"))
    else:
        found = FILES
    odd = FOLDER.parent / "odd_traces"
    return [*found, *(f"../odd_traces/{path.name}" for path in sorted(odd.glob("*.json.gz")))]


@pytest.fixture(scope="session", autouse=True)
def engine_is_here():
    engine_folder()


@pytest.mark.parametrize("file", _files())
@pytest.mark.nightly("exports complete traces")
def test_perfetto_reads_the_contents_of_the_store(opened, public_traces, tmp_path, file):
    check_read_back(opened(public_traces / file), tmp_path / "x.pftrace")
