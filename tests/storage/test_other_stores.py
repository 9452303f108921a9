"""Google Cloud Storage and Azure Blob Storage, on emulators; `object_servers` lists them.

The tests of locations use them, too.
"""

import pytest
from run_of_ranks import write_ranks

pytestmark = pytest.mark.nightly("starts emulators of object stores")


@pytest.mark.parametrize("scheme", ["gs", "az"])
def test_a_dataset(scheme, other_bucket, tmp_path, cli):
    bucket, local = other_bucket(scheme), tmp_path / "run"
    for file in write_ranks(local):
        (bucket / "run" / file.name).upload(file)
    dataset = f"{bucket.shown}/run.tracekit"
    for exit_code in (0, 4):  # The second one does not replace it.
        made = cli("ingest", f"{bucket.shown}/run", "-o", dataset, "--engine", "serial")
        assert made.exit_code == exit_code, made.stderr
    for question in ("rank_summary", "kernels"):
        found = [
            cli("query", question, place, "--format", "json").stdout
            for place in (dataset, f"{bucket.shown}/run/rank*.json", local)
        ]
        assert found[0].startswith("[")
        assert found[0] == found[1] == found[2]
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
