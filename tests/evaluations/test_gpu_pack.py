"""The folder that is carried to a GPU host, and what comes back of it."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
from gpu_pack import carry

pytestmark = [
    pytest.mark.nightly("packs the GPU tests and runs them in another environment"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc"),
]
# What would reach an index, if anything did.
_WITHOUT_NETWORK = {
    "PIP_NO_INDEX": "1",
    "PIP_CONFIG_FILE": os.devnull,
    "http_proxy": "http://127.0.0.1:9",
    "https_proxy": "http://127.0.0.1:9",
    "OMP_NUM_THREADS": "1",
}


@pytest.mark.skipif(
    os.environ.get("TRACEKIT_GPU_TESTS_ON_CPU") != "all",
    reason="a minute of packing: TRACEKIT_GPU_TESTS_ON_CPU=all runs it",
)
def test_a_pack_without_index_and_route_out(tmp_path):
    """The wheel of this tree is tried by the tests that are carried, and the run folder is back."""
    pytest.importorskip("torch")
    pack, out = tmp_path / "pack", tmp_path / "out"
    script = Path(carry.__file__)
    done = call(sys.executable, script, "pack", pack, "--parts", "tracekit", CFLAGS="-O0")
    assert done.returncode == 0, done.stderr
    # This environment's packages stand for the host's, but for tracekit, which is carried.
    host = fresh_environment(tmp_path / "host")
    carried = pack / "evaluations" / "gpu_pack" / "carry.py"
    done = call(
        *(*without_route(), host, carried, "run", out, "--marks", "not gpu", "--jobs", "1"),
        *("--", "tests/gpu", "-k", "test_packages or plain-cpu or d2d"),
        **_WITHOUT_NETWORK,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    rows = [json.loads(line) for line in (out / "side_by_side.jsonl").read_text().splitlines()]
    outcomes = {row["nodeid"]: row["outcome"] for row in rows if row.get("when") == "call"}
    assert list(outcomes.values()) == ["passed"] * 2, outcomes
    assert "1 passed" in (out / "alone.log").read_text()
    with tarfile.open(out / "kept-1.tar.gz") as archive:
        member = archive.extractfile("runs/cpu/loops/plain/run.json")
        assert json.loads(member.read())["outcome"] == "ok"


def call(*command, **variables):
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
        check=False,
    )


def without_route():
    """Return what runs a command with no network but the loopback, if the kernel lets us."""
    # NCCL and gloo talk to this very machine.
    shell = ["sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    command = ["unshare", "--user", "--map-root-user", "--net", *shell]
    if shutil.which("unshare") is None or call(*command, "true").returncode != 0:
        return []
    return command


def fresh_environment(folder):
    """Return the Python of an environment that has this one's packages, less tracekit's own."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (there,) = folder.glob("lib/python*/site-packages")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        # An editable tracekit is known by a file of paths, which is left out.
        if "tracekit" not in path.name.lower():
            (there / path.name).symlink_to(path)
    return folder / "bin" / "python"


def test_what_cannot_be_had_is_said_and_what_is_too_much_left_out(tmp_path, monkeypatch, capsys):
    def pip(*words, **_):
        wheels = tmp_path / "pack" / "wheels"
        if "nvtx" in words:
            raise carry.CarryError("no matching distribution")
        wheels.mkdir(exist_ok=True)
        name = "tracekit" if words[0] == "wheel" and "deepspeed" not in words else f"n{len(words)}"
        (wheels / f"{name}-1.whl").write_bytes(b"." * 100_000)

    carried = sum(path.stat().st_size for path in carry.ROOT.glob("tests/*/*.py"))
    monkeypatch.setattr(carry, "_pip", pip)
    monkeypatch.setattr(carry, "MOST_BYTES", carried + 250_000)
    parts = ["tracekit", "needs", "nvtx", "deepspeed"]
    assert carry.pack(tmp_path / "pack", parts, "") == 0
    said = capsys.readouterr().out
    assert "nvtx             0.00 MB  no matching distribution" in said
    assert "tracekit         0.10 MB\n" in said
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("")
    with pytest.raises(SystemExit, match="is not empty"):
        carry.pack(tmp_path / "other", parts, "")


def test_a_wheel_keeps_the_libraries_of_the_host_alone(tmp_path, monkeypatch):
    names = [f"libbitsandbytes_{one}.so" for one in ("cpu", "cuda130", "cuda118")]
    with zipfile.ZipFile(tmp_path / "bitsandbytes-1-py3-none-any.whl", "w") as archive:
        for name in (*names, "__init__.py"):
            archive.writestr(f"bitsandbytes/{name}", "content")
    monkeypatch.setattr(carry, "_fetch", lambda *_: None)
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    carry.strip_bitsandbytes(wheels, tmp_path)
    (stripped,) = wheels.iterdir()
    with zipfile.ZipFile(stripped) as archive:
        kept = {Path(name).name for name in archive.namelist()}
    assert kept == {*names[:2], "__init__.py"}


def test_lightllm_is_exported_from_a_clone(tmp_path, monkeypatch):
    clone, source = tmp_path / "clone", tmp_path / "source"
    for name in (*carry._LIBROSA_FILES, "LICENSE", "docs/much.md"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text("import librosa\nimport librosa.util as util\n")
    git = ["git", "-C", str(clone), "-c", "user.name=n", "-c", "user.email=e"]
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "all"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setattr(carry, "_LIGHTLLM_COMMIT", "HEAD")
    carry.export_lightllm(str(clone), source, tmp_path)
    assert sorted(path.name for path in source.iterdir()) == ["LICENSE", "lightllm"]
    text = (source / carry._LIBROSA_FILES[0]).read_text()
    assert text == "librosa = None\nimport librosa.util as util\n"


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
