"""Samples of power that `tracekit collect --power` records."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from traces_by_hand import kernel

import tracekit
from tracekit.collectors.process import power

LINES = ["2023/11/14 22:13:20.100, 2, 70.25", "2023/11/14 22:13:20.101, 0, 30.50", "odd line"]


def package(folder: Path, number: int, energy_uj: int, name: str = "package-0") -> Path:
    made = folder / f"intel-rapl:{number}"
    made.mkdir(parents=True, exist_ok=True)
    for file, text in (("name", name), ("energy_uj", energy_uj), ("max_energy_range_uj", 1000)):
        (made / file).write_text(f"{text}\n")
    return made


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tool of that name; returns a file that is there when it has written its lines."""
    written = tmp_path / "written"
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    texts = " ".join(f"'{line}'" for line in LINES)
    tool.write_text(f"#!/bin/sh\nprintf '%s\\n' {texts}\n: > {written}\nexec sleep 600\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    return written


def wait_for(file: Path) -> None:
    until = time.monotonic() + 120
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert file.exists()


def test_energy_adds_up_through_a_wrap_and_over_packages(tmp_path: Path) -> None:
    first, second = package(tmp_path, 0, 900), package(tmp_path, 1, 10)
    package(tmp_path, 2, 5, "psys")
    unread = package(tmp_path, 3, 5)
    (unread / "energy_uj").unlink()
    folders = power.packages(tmp_path)
    assert folders == [first, second]
    energy = power._Energy(folders)
    package(tmp_path, 0, 50)
    assert energy.sample() == 150
    package(tmp_path, 1, 35)
    assert energy.sample() == 175


def test_samples_are_in_the_run_folder_by_the_numbers_of_the_program(
    nvidia_smi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")
    folder = tmp_path / "run"
    folder.mkdir()
    with power.sampling(True, pytest.fail) as keep:
        wait_for(nvidia_smi)
        keep(folder)
    lines = (folder / "power.csv").read_text().splitlines()
    assert [line for line in lines if ",cpu," not in line] == [
        "timestamp,device,power [W],energy [uJ]",
        "2023-11-14T22:13:20.100Z,0,70.25,",
        "2023-11-14T22:13:20.101Z,1,30.50,",
    ]
    assert [file.name for file in folder.iterdir()] == ["power.csv"]


def test_they_are_read_as_samples_of_their_devices(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(
        json.dumps(
            {"baseTimeNanoseconds": 1_700_000_000 * 10**9, "traceEvents": [kernel("k", 0, 9)]}
        )
    )
    (tmp_path / "power.csv").write_text(
        "timestamp,device,power [W],energy [uJ]\n"
        "2023-11-14T22:13:20.100Z,0,70.25,\n1700000000.200000000,cpu,,1500\n"
    )
    with tracekit.open(tmp_path / "a.json", tmp_path / "power.csv", cache=False) as trace:
        assert [*trace.sql("SELECT device, unit, at_ns, value FROM system_sample ORDER BY 3")] == [
            ("0", "W", 1_700_000_000_100_000_000, 70.25),
            ("cpu", "J", 1_700_000_000_200_000_000, 0.0015),
        ]


def test_it_ends_with_whoever_started_it(nvidia_smi: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", power.__name__, str(tmp_path / "a.csv")], stdin=subprocess.PIPE
    )
    wait_for(nvidia_smi)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(120) == 0


def test_where_nothing_tells_the_program_runs_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(power, "_POWERCAP", tmp_path)
    said: list[str] = []
    with power.sampling(True, said.append) as keep:
        keep(tmp_path)
    assert said[0].startswith("No power is recorded")
    assert not (tmp_path / "power.csv").exists()
