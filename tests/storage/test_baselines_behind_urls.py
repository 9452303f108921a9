"""Baselines in a local folder, in a bucket, and on a web server."""

import pytest
from every_trace import REPO

from tracekit.checking.baseline import load, names
from tracekit.errors import StoreError, UsageError

SAMPLE = REPO / "sample_traces" / "pretrain_Naive"


def test_save_list_show_and_check(folder, cli):
    where = ("--baselines", folder)
    save = ("check", "baseline", "save", "main", SAMPLE, *where)
    assert names(folder) == []
    assert cli(*save).exit_code == 0
    first = (folder / "main.baseline.json").read_bytes()

    assert cli(*save).exit_code == 2
    assert (folder / "main.baseline.json").read_bytes() == first
    assert cli(*save, "--force", "--skip", "1").exit_code == 0
    assert (folder / "main.baseline.json").read_bytes() != first

    (row,) = cli("check", "baseline", "list", *where, "--format", "json").json()
    assert (row["name"], row["run"], row["sample_count"]) == ("main", "pretrain_Naive", 1)
    shown = cli("check", "baseline", "show", "main", *where, "--format", "csv")
    assert "compute,gemm,forward" in shown.stdout
    rule = ("--rule", "class.gemm.kernel_count <= +0%")
    for against in (("main", *where), (f"{folder}/main.baseline.json",)):
        assert cli("check", SAMPLE, "--against", *against, *rule).exit_code == 0
    with pytest.raises(UsageError, match="'other'") as raised:
        load("other", folder)
    assert "main" in (raised.value.hint or "")


def test_two_concurrent_saves(folder, cli, monkeypatch):
    """The second one finds a baseline that appeared after its check."""
    monkeypatch.setattr("tracekit.checking.baseline.names", lambda _folder: [])
    (folder / "main.baseline.json").write_bytes(b"of another job")
    done = cli("check", "baseline", "save", "main", SAMPLE, "--baselines", folder)
    assert done.exit_code == 2
    assert (folder / "main.baseline.json").read_bytes() == b"of another job"


@pytest.mark.nightly("a local folder and a trace on a web server are in the gate")
@pytest.mark.usefixtures("no_waiting")
def test_a_baseline_on_a_web_server(web, tmp_path, cli):
    save = ("check", "baseline", "save")
    assert cli(*save, "main", SAMPLE, "--baselines", tmp_path).exit_code == 0
    web.files["perf/main.baseline.json"] = (tmp_path / "main.baseline.json").read_bytes()
    url = f"{web.url}perf/main.baseline.json"
    signed = f"{url}?signature=secret"
    assert load(signed, tmp_path) == load("main", tmp_path)
    assert names(f"{web.url}perf/") == ["main"]
    rule = ("--rule", "class.gemm.kernel_count <= +0%")
    results = [cli("check", SAMPLE, *rule, "--against", signed)]
    web.files["perf/main.baseline.json"] = b"{"
    results.append(cli("check", SAMPLE, *rule, "--against", signed))
    web.failures[:] = [503] * 20
    with pytest.raises(StoreError, match=r"main\.baseline\.json"):
        load(signed, tmp_path)
    # A web server is read-only.
    web.failures.clear()
    results.append(cli(*save, "new", SAMPLE, "--baselines", f"{web.url}perf/"))
    assert [done.exit_code for done in results] == [0, 2, 4]
    assert not [done for done in results if "secret" in done.stdout + done.stderr]
