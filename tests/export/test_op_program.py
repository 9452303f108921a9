"""`tracekit export reproduce`: recorded ops are called again, by torch alone."""

import json
import sys
from pathlib import Path

import pytest
from processes import finished
from traces_by_hand import span

import tracekit
from tracekit.cli.commands.reproduce import op_program
from tracekit.errors import QueryError

LORA = Path(__file__).parents[1] / "traces" / "cpu_llama_lora" / "rank0.json.gz"


def op(name, start, **args):
    return span("cpu_op", name, start, start + 10, **args)


ADD = {
    "Input Dims": [[2, 3], [2, 3], []],
    "Input type": ["float", "float", "Scalar"],
    "Input Strides": [[3, 1], [1, 2], []],
    "Concrete Inputs": ["", "", "2"],
}


def rows_of(program, path):
    path.write_text(program)
    done = finished(sys.executable, path, "--json")
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.nightly("runs a generated program with torch")
def test_thirty_ops_of_a_recorded_run(tmp_path):
    with tracekit.open(LORA) as trace:
        program, count = op_program(trace, None, 30)
    assert count == 30
    rows = rows_of(program, tmp_path / "ops.py")
    assert {row["reason"] for row in rows} == {None}
    assert {len(row["host"]) for row in rows} == {20}
    assert all(row["host_us"] > 0 and min(row["host"]) >= 0 for row in rows)


@pytest.mark.nightly("runs a generated program with torch; another is in the gate")
def test_odd_arguments(tiny_trace, tmp_path):
    """Ops that cannot be called are reported, and names that are not torch ops are omitted."""
    huge = {**ADD, "Input Dims": [[2**40], [2**40], []], "Input Strides": [[1], [1], []]}
    lists = {"Input Dims": [[[2, 3], [2, 3]], []], "Input type": ["TensorList", "Scalar"]}
    events = [
        op("aten::add", 0, **ADD),
        op("aten::add", 20, **huge),
        op("aten::no_such_op", 40, **ADD),
        op("aten::add", 60, **{**ADD, "Concrete Inputs": ["", "", "__import__('os')"]}),
        op('aten::add_"); print(1)  #', 80, **ADD),
        op("aten::cat", 100, **lists, **{"Concrete Inputs": ["", "0"]}),
        op("aten::relu", 120),
        op("aten::relu", 140, **{**ADD, "Input type": 7}),
        op("aten::relu", 160, **{**ADD, "Input type": [1, 2, 3]}),
        op("aten::relu", 180, **{**ADD, "Concrete Inputs": {"a": None}}),
    ]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        program, count = op_program(trace, None, 30)
        with pytest.raises(QueryError, match="no call of aten::relu with recorded arguments"):
            op_program(trace, "aten::relu", 30)
    rows = rows_of(program, tmp_path / "ops.py")
    found = [(row["op"], row["shapes"][0], row["reason"]) for row in rows]
    refused = "refused by torch: '_OpNamespace' 'aten' object has no attribute 'no_such_op'"
    assert count == len(found) == 4
    assert sorted(found, key=str) == [
        ("aten::add", [1 << 40], f"unknown: a tensor of {4 << 40:,} bytes"),
        ("aten::add", [2, 3], None),
        ("aten::cat", [[2, 3], [2, 3]], None),
        ("aten::no_such_op", [2, 3], refused),
    ]


@pytest.mark.nightly("runs a generated program with torch")
def test_text_from_a_trace_is_printed_as_text(tiny_trace, tmp_path):
    one = {"Input Dims": [[2]], "Input Strides": [[1]], "Concrete Inputs": [""]}
    one["Input type"] = ["float"]
    cases = {
        "neg": {**one, "Input type": ["\x1b]0;x\x07float"]},
        "abs": {**one, "Input type": ["c10::\n::error::x\n\x1b[31m"]},
        "relu": {**one, "Input Dims": [[10**30]]},
        "sin": {**one, "Input Dims": [[3000, 10**6]], "Input Strides": [[0, 0]]},
        "cos": {**one, "Input type": ["Scalar"], "Concrete Inputs": ["-" * 100_000 + "1"]},
        "tan": {**one, "Input type": ["Scalar"], "Concrete Inputs": ["(" * 900]},
        "exp": {**one, "Input type": ["Scalar"], "Concrete Inputs": ["\u202e\x1b"]},
        "log": {**one, "Input Dims": [["\x1b[31m"]]},
        "zeros": {"Input Dims": [[]] * 5, "Input type": ["ScalarList", "", "", "", ""]}
        | {"Concrete Inputs": ["[100000000000]", "", "", "", ""]},
    }
    events = [
        op(f"aten::{name}", 20 * at, **given) for at, (name, given) in enumerate(cases.items())
    ]
    events += [op("load_library::x", 900, **ADD), op("__class__::__init__", 920, **ADD)]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        program, count = op_program(trace, None, 30)
    assert count == len(cases)
    (tmp_path / "ops.py").write_text(program)
    done = finished(sys.executable, tmp_path / "ops.py")
    lines = done.stdout.splitlines()
    shown = [line for line in lines if "  aten::" in line]
    assert len(shown) == count
    assert all("unknown: " in line or "refused by torch: " in line for line in shown), shown
    assert "".join(shown).isascii()
    assert "\x1b" not in done.stdout
    assert max(map(len, shown)) < 400


def test_the_command(cli, tmp_path):
    out = tmp_path / "ops.py"
    done = cli("export", "reproduce", LORA, "--op", "aten::mm", "--limit", "2", "-o", out)
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == f"{out}: 2 calls; python {out} runs them\n"
    compile(out.read_text(), str(out), "exec")
