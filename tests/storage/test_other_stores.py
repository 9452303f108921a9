"""Datasets in each kind of object store, and denied access; `object_servers` lists emulators."""

import pytest
from run_of_ranks import write_ranks

pytestmark = pytest.mark.nightly("starts emulators of object stores")


def test_a_dataset(folder, tmp_path, cli):
    local = tmp_path / "run"
    for file in write_ranks(local):
        (folder / "run" / file.name).upload(file)
    dataset = f"{folder.shown}/run.tracekit"
    for exit_code in (0, 4):  # The second one does not replace it.
        made = cli("ingest", f"{folder.shown}/run", "-o", dataset, "--engine", "serial")
        assert made.exit_code == exit_code, made.stderr
    for question in ("rank_summary", "kernels"):
        found = [
            cli("query", question, place, "--format", "json").stdout
            for place in (dataset, f"{folder.shown}/run/rank*.json", local)
        ]
        assert found[0].startswith("[")
        assert found[0] == found[1] == found[2]
    scheme = f"{folder.shown}".partition("://")[0]
    nowhere = cli("query", "timeline", f"{scheme}://no-such-bucket/run")
    assert nowhere.exit_code == 3


def test_denied_access_is_one_line_without_a_secret(
    other_bucket, emulator, cli, clients_anew, monkeypatch
):
    bucket, server = other_bucket("az"), emulator("az")
    variable = "AZURE_STORAGE_CONNECTION_STRING"
    wrong = server.environment[variable].replace(server.secret, "d3Jvbmc=" + server.secret[8:])
    monkeypatch.setenv(variable, wrong)
    with clients_anew():
        denied = cli("query", "timeline", bucket.shown)
    assert (denied.exit_code, denied.stdout) == (3, "")
    assert denied.stderr.startswith(f"error: {bucket.shown}: ")
    assert "AZURE_STORAGE_*" in denied.stderr
    assert server.secret[8:] not in denied.stderr
