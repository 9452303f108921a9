"""What was measured is remembered, a file for each device."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest
from measured_points import ALL_REDUCE, CPU, EPYC, FAST, GPU, NAME, MakeBench, cpu, found, gpu

from tracekit.analysis.ceiling_sources import Sources
from tracekit.analysis.ceilings import file_of, find, forget_all, list_remembered, remember
from tracekit.errors import StoreError

pytestmark = pytest.mark.usefixtures("cache")


def test_the_cache_has_a_file_for_each_device_and_keeps_times(
    make_bench: MakeBench, cache: Path
) -> None:
    names = [EPYC, "../../etc/passwd", "\x1b[31m", "é" * 200, NAME]
    points = [FAST | GPU | {"device_name": name} for name in names]
    assert sorted(remember(make_bench("b", points))) == sorted(names)
    files = sorted((cache / "ceilings").glob("*.json"))
    assert len(files) == len(names)
    assert {file.parent for file in files} == {cache / "ceilings"}
    kept = json.loads(file_of(NAME).read_text())
    assert (kept["schema_version"], kept["device_name"]) == (1, NAME)
    (point,) = kept["points"]
    assert (point["median_ns"], point["run_name"]) == (1000.0, "b")
    assert not any("per_s" in member for member in point)
    # The file of the cache can be given too.
    assert found(gpu(), Sources(file_of(NAME))) == [("product", None, 2e9, "given", None)]
    assert sorted(device.device_name for device in list_remembered()) == sorted(names)
    assert forget_all() == len(names)
    assert list_remembered() == []


def test_what_every_user_could_have_written_is_no_ceiling(
    make_bench: MakeBench, cache: Path
) -> None:
    remember(make_bench("b", [FAST], **CPU))
    assert found(cpu(), Sources()) != []
    for folder in (cache, cache / "ceilings"):
        folder.chmod(0o777)
        assert found(cpu(), Sources()) == []
        folder.chmod(0o700)


def test_a_damaged_file_of_the_cache_is_passed_over_and_written_anew(
    make_bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    bench = make_bench("b", [FAST], **CPU)
    remember(bench)
    file_of(EPYC).write_text('{"schema_version": 1, "points": [')
    assert found(cpu(), Sources()) == []
    assert "nothing in it is a point" in caplog.text
    assert [device.device_name for device in list_remembered()] == ["?"]
    remember(bench)
    assert found(cpu(), Sources()) == [("product", 2, 2e9, "cache", None)]


def test_a_cache_that_cannot_be_written_is_one_sentence(make_bench: MakeBench, cache: Path) -> None:
    cache.mkdir()
    (cache / "ceilings").write_text("a file")
    with pytest.raises(StoreError, match="the ceilings cannot be kept"):
        remember(make_bench("b", [FAST], **CPU))


def _remember(folder: Path) -> None:
    remember(folder)


def test_several_processes_remember_at_a_time(make_bench: MakeBench) -> None:
    """None loses what another one keeps."""
    folders = [
        make_bench(f"b{number}", [ALL_REDUCE | {"group_size": number + 2}], **CPU)
        for number in range(4)
    ]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(_remember, folders)
    sizes = sorted(row[9] for row in find(cpu(), Sources()))
    assert sizes == [2, 3, 4, 5]
