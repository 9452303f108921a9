"""The folder that is brought: what is in it, what is said of what is not."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from evidence import _lightllm, _wheels, prepare
from evidence._wheels import UnavailableError


def test_nothing_of_this_machine_is_told() -> None:
    text = "Could not fetch https://name:secret@index.example/simple/x/ into /home/ann/tmp/x.whl"
    assert _wheels.clean(text) == "Could not fetch … into x.whl"


def test_a_wheel_keeps_the_libraries_of_the_host_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tmp_path / "bitsandbytes-1-py3-none-any.whl"
    libraries = [
        "libbitsandbytes_cpu.so",
        "libbitsandbytes_cuda130.so",
        "libbitsandbytes_cuda118.so",
    ]
    with zipfile.ZipFile(whole, "w") as archive:
        for name in (*libraries, "__init__.py"):
            archive.writestr(f"bitsandbytes/{name}", "content")
        names = [f"bitsandbytes/{name},sha256=x,7" for name in (*libraries, "__init__.py")]
        archive.writestr("bitsandbytes-1.dist-info/RECORD", "\n".join(names) + "\n")
    monkeypatch.setattr(_wheels, "_download", lambda *_: whole)
    into = tmp_path / "into"
    into.mkdir()
    stripped = _wheels.strip_bitsandbytes(into, tmp_path, "3.12")
    with zipfile.ZipFile(stripped) as archive:
        record = archive.read("bitsandbytes-1.dist-info/RECORD").decode()
        kept = {name for name in archive.namelist() if name.endswith(".so")}
    assert kept == {f"bitsandbytes/{name}" for name in libraries[:2]}
    assert "cuda118" not in record
    assert record.count("\n") == 3


def test_lightllm_is_exported_from_a_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clone = tmp_path / "clone"
    for name in (*_lightllm._LIBROSA_FILES, "LICENSE", "docs/much.md"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text("import librosa\nimport librosa.util as util\n")
    git = ["git", "-C", str(clone), "-c", "user.name=n", "-c", "user.email=e"]
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "all"]):
        subprocess.run([*git, *words], check=True)
    with pytest.raises(UnavailableError, match=f"the clone has no commit {_lightllm.COMMIT}"):
        _lightllm.export(str(clone), tmp_path / "none", tmp_path)
    monkeypatch.setattr(_lightllm, "COMMIT", "HEAD")
    source = tmp_path / "source"
    commit = _lightllm.export(str(clone), source, tmp_path)
    assert len(commit) == 40
    assert sorted(path.name for path in source.iterdir()) == ["LICENSE", "lightllm"]
    text = (source / _lightllm._LIBROSA_FILES[0]).read_text()
    assert text == "librosa = None\nimport librosa.util as util\n"


def test_what_cannot_be_had_is_listed_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(repo: Path, into: Path, work: Path) -> Path:
        wheel = into / "tracekit-1-py3-none-any.whl"
        wheel.write_bytes(b"a wheel")
        return wheel

    def download(requirement: str, into: Path, python: str) -> Path:
        if not requirement.startswith("duckdb"):
            raise UnavailableError("no matching distribution")
        wheel = into / "duckdb-2-py3-none-any.whl"
        wheel.write_bytes(b"another")
        return wheel

    monkeypatch.setattr(_wheels, "build_tracekit", build)
    monkeypatch.setattr(_wheels, "_download", download)
    pack = tmp_path / "pack"
    parts = ["tracekit", "analysis", "nvtx", "lightllm"]
    words = [str(pack), "--parts", ",".join(parts), "--lightllm", str(tmp_path / "no-clone")]
    assert prepare.main(words) == 0
    content = __import__("json").loads((pack / "pack.json").read_text())
    by_name = {part["name"]: part for part in content["parts"]}
    assert list(by_name) == parts
    assert by_name["tracekit"]["files"] == ["wheels/tracekit-1-py3-none-any.whl"]
    assert by_name["analysis"]["files"] == ["wheels/duckdb-2-py3-none-any.whl"]
    assert len(by_name["analysis"]["problems"]) == len(_wheels.ANALYSIS.requirements) - 1
    assert by_name["nvtx"]["problems"] == ["nvtx==0.2.17: no matching distribution"]
    assert "has no commit" in by_name["lightllm"]["problems"][0]
    assert (pack / "evidence" / "run.py").is_file()
    assert (pack / "evidence" / "loops" / "plain.py").is_file()
    for file in pack.rglob("*.json"):
        assert str(tmp_path) not in file.read_text()
    # A pack is made anew; nothing else is removed.
    assert prepare.main(words) == 0
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("")
    with pytest.raises(SystemExit, match="holds something that is no pack"):
        prepare.main([str(other)])
    assert (other / "mine.txt").exists()


def test_a_pack_that_is_too_large_loses_its_last_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "_MOST_BYTES", 25)
    parts = []
    for name in ("tracekit", "first", "second"):
        path = tmp_path / name
        path.write_bytes(b"0123456789")
        parts.append(prepare.Part(name, [path]))
    prepare._drop_what_is_too_much(tmp_path, parts)
    assert [len(part.files) for part in parts] == [1, 1, 0]
    assert parts[2].problems == ["left out: the pack would have 0.0 MB with it"]
