"""The folder for a GPU host, and the returned results."""

import os
import subprocess
import sys
import tarfile

import pytest
from gpu_pack import carry

pytestmark = [
    pytest.mark.nightly("starts a process"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc"),
]


def test_what_comes_back_is_bounded_and_the_rest_is_said(tmp_path):
    kept, out = tmp_path / "kept", tmp_path / "out"
    out.mkdir()
    for number, size in enumerate((100, 6_000, 50_000, 6_000, 6_000, 9_000)):
        folder = kept / "runs" / f"run{number}"
        folder.mkdir(parents=True)
        (folder / "run.json").write_text("{}")
        (folder / "rank0.json.gz").write_bytes(os.urandom(size))
        os.utime(folder / "run.json", (number, number))
    left = carry.bring_back(kept, out, most_bytes=13_000)
    assert left == ["runs/run2: 0.1 MB", "runs/run5: 0.0 MB"]
    found = {}
    for file in sorted(out.iterdir()):
        with tarfile.open(file) as archive:
            found[file.name] = [name for name in archive.getnames() if name.endswith(".json")]
    # The manifests of all; then as many of the folders as a file takes.
    assert len(found["kept-0.tar.gz"]) == 6
    assert [len(names) for names in found.values()] == [6, 2, 1, 1]


def test_nothing_that_a_run_started_is_left(tmp_path):
    sleeper = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]
    environment = {**os.environ, "TRACEKIT_GPU_TESTS_OUT": str(tmp_path / "kept")}
    process = subprocess.Popen(
        sleeper, env=environment, stdout=subprocess.PIPE, start_new_session=True
    )
    process.stdout.readline()
    carry.end_all(tmp_path / "other")
    assert process.poll() is None
    carry.end_all(tmp_path)
    assert process.wait(60) == -9
    process.stdout.close()
