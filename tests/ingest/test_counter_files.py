"""Files of counter samples next to a trace: which tables of which tools are read."""

import time

import duckdb
import pytest
from traces_by_hand import kernel

import tracekit
from tracekit.analysis.library import library_file
from tracekit.database.connections import create_tables
from tracekit.engine.many_ranks import ingest_dataset
from tracekit.errors import TraceError, UsageError
from tracekit.ingest.formats.counter_files import load_counters

SECOND = 1_700_000_000
"""2023-11-14 22:13:20 UTC"""


@pytest.fixture(scope="module")
def store():
    with duckdb.connect() as connection:
        create_tables(connection, library_file())
        yield connection


@pytest.fixture
def read(store, tmp_path):
    """Return the samples of a file: device, name, unit, s since :data:`SECOND`, value."""

    def samples(text):
        path = tmp_path / "samples.csv"
        path.write_text(text)
        store.execute("DELETE FROM system_sample; DELETE FROM rejected")
        load_counters(store, path, tmp_path, None)
        return store.execute(
            "SELECT device, name, unit, (at_ns - 1700000000000000000) / 1e9, value "
            "FROM system_sample"
        ).fetchall()

    return samples


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "timestamp, index, name, power.draw [W], utilization.gpu [%]\n"
            "2023/11/14 22:13:20.500, 0, NVIDIA H100, 61.25 W, 7 %\n"
            "2023/11/14 22:13:20.501, 1, NVIDIA H100, [N/A], 8 %\n",
            [
                ("0", "power.draw", "W", 0.5, 61.25),
                ("0", "utilization.gpu", "%", 0.5, 7),
                ("1", "utilization.gpu", "%", 0.501, 8),
            ],
            id="nvidia-smi",
        ),
        pytest.param(
            "index, power.draw [W], timestamp\n3, 61.25, 2023/11/14 22:13:21.000\n",
            [("3", "power.draw", "W", 1, 61.25)],
            id="nvidia-smi, nounits, time last",
        ),
        pytest.param(
            "2023/11/14 22:13:20.500, 2, 61.25 W, 40 %\n",
            [("2", "power.draw", "W", 0.5, 61.25), ("2", "column 3", "%", 0.5, 40)],
            id="nvidia-smi, noheader",
        ),
        pytest.param(
            "#Date       Time        gpu    pwr  gtemp     sm\n"
            "#YYYYMMDD   HH:MM:SS    Idx      W      C      %\n"
            " 20231114   22:13:22      1     70      -     12\n",
            [("1", "pwr", "W", 2, 70), ("1", "sm", "%", 2, 12)],
            id="nvidia-smi dmon -o DT",
        ),
        pytest.param(
            "#Date, Time, gpu, pwr, sm\n#YYYYMMDD, HH:MM:SS, Idx, W, %\n"
            "20231114, 22:13:22, 1, 70, 12\n",
            [("1", "pwr", "W", 2, 70), ("1", "sm", "%", 2, 12)],
            id="nvidia-smi dmon -o DT --format csv",
        ),
        pytest.param(
            "1700000000.25 #Entity   POWER    TOTEC\n"
            "1700000000.25 ID            W       mJ\n"
            "1700000000.25 GPU 0    64.500   123456\n",
            [("0", "power", "W", 0.25, 64.5), ("0", "totec", "J", 0.25, 123.456)],
            id="dcgmi dmon | ts %.s",
        ),
        pytest.param(
            "1700000001.5 device,Average Graphics Package Power (W)\n1700000001.5 card0,38.0\n",
            [("0", "average graphics package power", "W", 1.5, 38)],
            id="rocm-smi --csv | ts %.s",
        ),
        pytest.param(
            "timestamp,gpu,socket_power,gfx_voltage\n1700000003,0,130,N/A\n",
            [("0", "socket_power", None, 3, 130)],
            id="amd-smi metric --csv",
        ),
        pytest.param(
            "timestamp,device,energy [uJ]\n2023-11-14T23:13:20.000000001+01:00,cpu,5000000\n",
            [("cpu", "energy", "J", 1e-9, 5)],
            id="with a zone",
        ),
    ],
)
def test_tables_of_tools(text, expected, read, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    found = read(text)
    assert [row[:3] for row in found] == [row[:3] for row in expected]
    assert [row[3:] for row in found] == [pytest.approx(row[3:], abs=1e-6) for row in expected]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("# gpu    pwr\n# Idx      W\n    0     70\n", id="no times"),
        pytest.param("2023/11/14 22:13:20.500, 2, 61.25\n", id="columns without names"),
        pytest.param("a,b\nc,d\n", id="no samples"),
        pytest.param(
            "timestamp, power.draw [W]\n" + "2025/05/05 20:58:44.813, 90.5 W\n" * 8, id="no device"
        ),
        pytest.param("", id="empty"),
    ],
)
def test_other_tables_are_refused(text, read):
    with pytest.raises(TraceError, match=r"samples\.csv"):
        read(text)


def test_a_truncated_line_is_rejected(read, store):
    text = "timestamp,index,power.draw [W]\n1700000000,0,70\n1700000001,\n"
    assert [row[4] for row in read(text)] == [70]
    assert store.execute("SELECT byte_offset, text FROM rejected").fetchall() == [
        (47, "1700000001,\n")
    ]


GOOD = "2023-11-14 22:13:21, 0, 5.0 W"
HEAD = "timestamp, index, power.draw [W]"


@pytest.mark.parametrize(
    "line",
    [
        "2024-99-99 99:99:99.000, 0, 5.0 W", "2024-02-30 10:00:00, 0, 5.0 W",
        "2024-01-01 24:60:00, 0, 5.0 W", "9999-12-31 23:59:59.000, 0, 5.0 W",
        "0001-01-01 00:00:00, 0, 5.0 W", "0000-01-01 00:00:00+99:99, 0, 5.0 W",
        "9999999999, 0, 5.0 W", "\u0662\u0660\u0662\u0664-01-01 00:00:00, 0, 5.0 W",
        "2024-01-01 00:00:00, 0, \u0665 W", "2024-01-01 00:00:00.5, a\rb, 5 W",
        "2024-01-01 00:00:00.5, a\0b, 5 W", "2024-01-01 00:00:00.5, a\x1bb, 5 W",
        "2024-01-01" + " " * 60_000 + "x",
    ],
    ids=lambda line: ascii(line[:30]),
)  # fmt: skip
def test_an_invalid_line_is_rejected(line, read, store):
    assert read(f"{HEAD}\n{GOOD}\n{line}\n{GOOD}\n")[0][:3] == ("0", "power.draw", "W")
    found = store.execute("SELECT name, value FROM system_sample WHERE value = 5").fetchall()
    assert found[0] == found[-1] == ("power.draw", 5)
    assert len(found) == 2
    assert store.execute("SELECT count(*) FROM rejected").fetchone() == (1,)


@pytest.mark.parametrize(
    "cell", [" " * 30_000 + "b", "[" * 60_000, "(" * 60_000 + "]", "1" * 60_000]
)
def test_parsing_names_takes_linear_time(cell, read):
    started_s = time.process_time()
    assert len(read(f"timestamp, index, a{cell}, power.draw [W]\n2023-11-14 22:13:21, 0, 1, 5 W\n"))
    assert time.process_time() - started_s < 5  # a quadratic pattern takes minutes


def test_names_with_brackets(read):
    found = read("timestamp, a (b) [W], c), [d, (e)\n2023-11-14 22:13:21, 1, 2, 3, 4\n")
    assert [(name, unit) for _, name, unit, *_ in found] == [
        ("a (b)", "W"),
        ("c)", None),
        ("[d", None),
        (None, "e"),
    ]


def test_samples_alone_are_no_trace(tmp_path):
    (tmp_path / "power.csv").write_text("timestamp,index,power.draw [W]\n1700000000,0,70\n")
    with pytest.raises(TraceError):
        tracekit.open(tmp_path / "power.csv", cache=False)


def test_samples_with_a_dataset_are_refused(tiny_trace, tmp_path):
    traces = [tiny_trace([kernel("k", 2, 9)], f"rank{rank}.json") for rank in range(2)]
    (tmp_path / "p.csv").write_text("timestamp,index,power.draw [W]\n1700000000,0,70\n")
    with pytest.raises(UsageError):
        ingest_dataset([*traces, tmp_path / "p.csv"], tmp_path / "all.tracekit")
