"""Baselines in a local folder, in a bucket, and on a web server."""

import json

import pytest
from every_trace import REPO

from tracekit.checking.baseline import load, names
from tracekit.cli._main import main
from tracekit.errors import StoreError, UsageError

SAMPLE = REPO / "sample_traces" / "pretrain_Naive"


@pytest.fixture(autouse=True)
def cached_store(cache, keep_stores):
    keep_stores(cache, SAMPLE)


def test_save_list_show_and_check(folder, capsys):
    where = ["--baselines", str(folder)]
    assert names(folder) == []
    assert main(["check", "baseline", "save", "main", str(SAMPLE), *where]) == 0
    first = (folder / "main.baseline.json").read_bytes()

    assert main(["check", "baseline", "save", "main", str(SAMPLE), *where]) == 2
    assert (folder / "main.baseline.json").read_bytes() == first
    assert (
        main(["check", "baseline", "save", "main", str(SAMPLE), *where, "--force", "--skip", "1"])
        == 0
    )
    assert (folder / "main.baseline.json").read_bytes() != first
    capsys.readouterr()

    assert main(["check", "baseline", "list", *where, "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["run"], row["sample_count"]) == ("main", "pretrain_Naive", 1)
    assert main(["check", "baseline", "show", "main", *where, "--format", "csv"]) == 0
    assert "compute,gemm,forward" in capsys.readouterr().out
    rule = ["--rule", "class.gemm.kernel_count <= +0%"]
    for against in (["main", *where], [f"{folder}/main.baseline.json"]):
        assert main(["check", str(SAMPLE), "--against", *against, *rule]) == 0
    with pytest.raises(UsageError, match="'other'") as raised:
        load("other", folder)
    assert "main" in (raised.value.hint or "")


def test_two_concurrent_saves(folder, monkeypatch):
    """The second one finds a baseline that appeared after its check."""
    monkeypatch.setattr("tracekit.checking.baseline.names", lambda _folder: [])
    (folder / "main.baseline.json").write_bytes(b"of another job")
    assert main(["check", "baseline", "save", "main", str(SAMPLE), "--baselines", str(folder)]) == 2
    assert (folder / "main.baseline.json").read_bytes() == b"of another job"


@pytest.mark.nightly("a local folder and a trace on a web server are in the gate")
def test_a_baseline_on_a_web_server(web, tmp_path, capsys, no_waiting):
    assert (
        main(["check", "baseline", "save", "main", str(SAMPLE), "--baselines", str(tmp_path)]) == 0
    )
    web.files["perf/main.baseline.json"] = (tmp_path / "main.baseline.json").read_bytes()
    url = f"{web.url}perf/main.baseline.json"
    kept = load("main", tmp_path)
    assert load(f"{url}?signature=secret", tmp_path) == kept
    assert names(f"{web.url}perf/") == ["main"]
    arguments = ["check", str(SAMPLE), "--rule", "class.gemm.kernel_count <= +0%", "--against"]
    assert main([*arguments, f"{url}?signature=secret"]) == 0
    web.files["perf/main.baseline.json"] = b"{"
    assert main([*arguments, f"{url}?signature=secret"]) == 2
    web.failures[:] = [503] * 20
    with pytest.raises(StoreError, match=r"main\.baseline\.json"):
        load(f"{url}?signature=secret", tmp_path)
    # A web server is read-only.
    web.failures.clear()
    assert (
        main(["check", "baseline", "save", "new", str(SAMPLE), "--baselines", f"{web.url}perf/"])
        == 4
    )
    out = capsys.readouterr()
    assert "secret" not in out.out + out.err
