"""Operations and bytes of single ops on paper; what bounds them is in tests/cases."""

from pathlib import Path

import pytest
from cases_as_ranks import Cases
from traces_by_hand import span, work

BF16 = "c10::BFloat16"
A100 = [{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85_000_000_000}]
RIDGE = 312e12 / 2.039e12
QKV = [[2, 8, 100, 64], [2, 8, 100, 64], [2, 8, 100, 64]]
ONE = 2 * 8 * 100 * 64  # elements of each of query, key and value
PAIRS = 2 * 8 * 100 * 100
CASES = Cases()
asked = CASES.fixture(deviceProperties=A100)


def op(name, dims, values):
    types = [BF16 if dim else "Scalar" for dim in dims]
    args = {"Input Dims": dims, "Input type": types}
    if values is not None:
        args["Concrete Inputs"] = values
    return [span("cpu_op", name, 0, 3, **args), *work(1, 0, 10, 1)]


def on_paper(line):
    """Return the rank of an op's trace, its class, operations and bytes."""
    name, dims, values, op_class, flops, size = (cell.strip() for cell in line.split("|"))
    rank = CASES.add(op(name, eval(dims), eval(values) if values else None))
    return rank, op_class, eval(flops), eval(size)


ON_PAPER = Path(__file__).with_name("op_costs_on_paper.txt")
LINES = [line for line in ON_PAPER.read_text("utf-8").splitlines() if line[0] != "#"]
OPS = [on_paper(line) for line in LINES]


@pytest.mark.parametrize(
    ("rank", "op_class", "flops", "size"), OPS, ids=[line.split(" ")[0] for line in LINES]
)
def test_operations_and_bytes_on_paper(asked, rank, op_class, flops, size):
    (row,) = asked.rows(rank, "compute_memory")
    assert (row["op_class"], row["flops"], row["bytes"]) == (op_class, flops, size)
    assert row["kernel_pct"] == 100.0
    assert row["intensity_flop_per_byte"] == pytest.approx(flops / size)
    assert row["ridge_flop_per_byte"] == pytest.approx(RIDGE)
    assert row["bound"] == ("compute" if flops / size >= RIDGE else "memory")
    assert row["reason"] is None
