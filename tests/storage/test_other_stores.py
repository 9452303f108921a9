"""Google's and Azure's storage, as real servers of their protocols have it.

They are on few machines: see `object_servers`, which says how to have them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import object_servers
import pytest
from object_servers import ObjectServer
from run_of_ranks import write_ranks

from tracekit.storage import Location, filesystems, url

# The libraries leave sockets and files to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

BUCKET = "tracekit-tests"

Anew = Callable[[], AbstractContextManager[None]]


@pytest.fixture(scope="module", params=["gs", "az"])
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, ObjectServer]]:
    """Return a kind of URL and its server, started once."""
    scheme: str = request.param
    package = {"gs": "gcsfs", "az": "adlfs"}[scheme]
    pytest.importorskip(package, reason="the extra remote is not installed")
    program = object_servers.PROGRAMS[scheme]
    if shutil.which(program) is None:
        pytest.skip(f"the program {program} is not installed")
    with object_servers.serving(scheme, tmp_path_factory.mktemp(scheme)) as server:
        yield scheme, server


@pytest.fixture
def bucket(
    store: tuple[str, ObjectServer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    clients_anew: Anew,
) -> Iterator[Location]:
    scheme, server = store
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    with clients_anew():
        made = filesystems.filesystem(url.parse(f"{scheme}://{BUCKET}/"))
        if not made.exists(BUCKET):
            made.mkdir(BUCKET)
        yield Location.of(f"{scheme}://{BUCKET}/{tmp_path.name}")


def test_files_are_written_found_and_read(bucket: Location, tmp_path: Path) -> None:
    assert not bucket.exists()
    with pytest.raises(FileNotFoundError):
        (bucket / "rank0.json").size_bytes()
    for rank in range(3):
        (bucket / f"sub/rank{rank}.json").write_bytes(b"0123456789" * (rank + 1))
    folder = bucket / "sub"
    assert (folder.is_dir(), folder.is_file()) == (True, False)
    place = folder / "rank1.json"
    assert (place.is_dir(), place.is_file(), place.size_bytes()) == (False, True, 20)
    names = [f"rank{rank}.json" for rank in range(3)]
    assert [one.name for one in folder.entries()] == names
    assert [one.name for one in bucket.files()] == names
    assert [one.name for one in Location.of(f"{folder.shown}/rank[01].json").glob()] == names[:2]
    assert [one.shown for one in Location.of(f"{bucket.shown}/**/rank2.json").glob()] == [
        f"{folder.shown}/rank2.json"
    ]
    assert place.read_range(8, 12) == b"8901"
    with place.open(15) as stream:
        assert stream.read() == b"56789"
    # What a listing and a look at it tell is the same, until it changes.
    [listed] = [one for one in folder.entries() if one.name == "rank1.json"]
    before = Location.of(place.shown).identity()
    assert listed.identity() == before
    place.write_bytes(b"9876543210" * 2)
    assert Location.of(place.shown).identity() != before
    large = tmp_path / "large"
    large.write_bytes(bytes(range(256)) * 40_000)
    (bucket / "large").upload(large)
    assert (bucket / "large").read_bytes() == large.read_bytes()
    (bucket / "large").delete()
    (bucket / "large").delete()
    bucket.delete_tree()
    assert bucket.files() == []


def test_of_several_writers_one_succeeds(bucket: Location) -> None:
    def write(number: int) -> bool:
        try:
            (bucket / "manifest.json").write_new(b"%d" % number)
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        done = [*pool.map(write, range(8))]
    assert done.count(True) == 1
    assert (bucket / "manifest.json").read_bytes() == b"%d" % done.index(True)


def test_a_dataset_is_made_there_and_asked(
    bucket: Location, tmp_path: Path, cli: Callable[..., Any]
) -> None:
    local = tmp_path / "run"
    for file in write_ranks(local):
        (bucket / "run" / file.name).upload(file)
    dataset = f"{bucket.shown}/run.tracekit"
    made = cli("ingest", f"{bucket.shown}/run", "-o", dataset, "--engine", "serial")
    assert made.exit_code == 0, made.stderr
    again = cli("ingest", f"{bucket.shown}/run", "-o", dataset, "--engine", "serial")
    assert again.exit_code == 4
    assert again.stderr == f"error: {dataset}: exists already\nhint: --force replaces it\n"
    for question in ("rank_summary", "kernels"):
        found = [
            cli("query", question, place, "--format", "json").stdout
            for place in (dataset, f"{bucket.shown}/run/rank*.json", local)
        ]
        assert found[0].startswith("[")
        assert found[0] == found[1] == found[2]


def test_who_may_not_is_told_without_a_secret(
    store: tuple[str, ObjectServer],
    bucket: Location,
    cli: Callable[..., Any],
    clients_anew: Anew,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheme, server = store
    nowhere = cli("query", "timeline", f"{scheme}://no-such-bucket/run")
    assert nowhere.exit_code == 3
    if server.secret is None:
        assert nowhere.stderr == f"error: {scheme}://no-such-bucket/run: no such file or folder\n"
        return
    text = server.environment["AZURE_STORAGE_CONNECTION_STRING"]
    where = "credentials: they come from AZURE_STORAGE_* variables"
    wrong = text.replace(server.secret, "d3Jvbmc=" + server.secret[8:])
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", wrong)
    with clients_anew():
        denied = cli("query", "timeline", bucket.shown)
    assert (denied.exit_code, denied.stdout) == (3, "")
    assert denied.stderr.startswith(f"error: {bucket.shown}: access is denied")
    assert denied.stderr.endswith(f"; {where}\n")
    assert server.secret[8:] not in denied.stderr


@pytest.mark.parametrize("text", [None, "AccountKey=c2VjcmV0"])
def test_without_credentials_it_is_said_at_once(
    text: str | None,
    cli: Callable[..., Any],
    clients_anew: Anew,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("adlfs", reason="the extra remote is not installed")
    for name in ("CONNECTION_STRING", "ACCOUNT_NAME", "ACCOUNT_KEY", "SAS_TOKEN"):
        monkeypatch.delenv(f"AZURE_STORAGE_{name}", raising=False)
    if text is not None:
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    waits: list[int] = []
    monkeypatch.setattr("tracekit.storage.requests.wait", waits.append)
    with clients_anew():
        found = cli("query", "timeline", "az://container/run")
    assert found.exit_code == 3
    assert waits == []
    assert found.stderr == (
        "error: az://container/run: no credentials that can be used: "
        "they come from AZURE_STORAGE_* variables\n"
    )
