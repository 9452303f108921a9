"""Locations on a real S3 server, on emulators of other object stores, and on a web server."""

import contextlib
import shutil

import object_servers
import pytest
import web_server
from s3_server import s3  # noqa: F401
from traces_by_hand import call, kernel

from tracekit.storage import Location, stores


@contextlib.contextmanager
def new_clients():
    """Create new clients inside the block, because they read credentials when created."""
    stores._STORES.clear()
    try:
        yield
    finally:
        stores._STORES.clear()


@pytest.fixture
def clients_anew():
    """Return a context manager in which new clients are created."""
    return new_clients


@pytest.fixture
def bucket(s3, monkeypatch, tmp_path):  # noqa: F811
    """Return a folder in a bucket, and configure this process for the S3 server."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    with new_clients():
        yield Location.of(f"s3://tracekit-tests/{tmp_path.name}")


@pytest.fixture(scope="session")
def emulator(tmp_path_factory):
    """Return a function that starts the emulator of a URL scheme once."""
    servers = {}
    with contextlib.ExitStack() as stack:

        def start(scheme):
            pytest.importorskip("obstore", reason="the extra remote is not installed")
            program = object_servers.PROGRAMS[scheme]
            if shutil.which(program) is None:
                pytest.skip(f"the program {program} is not installed")
            if scheme not in servers:
                folder = tmp_path_factory.mktemp(scheme)
                servers[scheme] = stack.enter_context(object_servers.serving(scheme, folder))
            return servers[scheme]

        yield start


@pytest.fixture
def other_bucket(emulator, tmp_path, monkeypatch):
    """Return a function that gives a folder in a bucket on the emulator of a URL scheme."""

    def folder_of(scheme):
        for name, value in emulator(scheme).environment.items():
            monkeypatch.setenv(name, value)
        return Location.of(f"{scheme}://{object_servers.BUCKET}/{tmp_path.name}")

    with new_clients():
        yield folder_of


@pytest.fixture
def ranks(tiny_trace, tmp_path):
    """Return a folder with the traces of four ranks."""
    for rank in (0, 1, 10, 2):
        events = [call(10, 12, 1), kernel("gemm", 20, 30 + rank, 1)]
        top = {"distributedInfo": {"rank": rank, "world_size": 11}}
        tiny_trace(events, f"ranks/rank{rank}.json.gz", **top)
    return tmp_path / "ranks"


@pytest.fixture
def web():
    pytest.importorskip("obstore", reason="the extra remote is not installed")
    with web_server.serving() as server:
        yield server


@pytest.fixture
def no_waiting(monkeypatch):
    """Retry without delay."""
    monkeypatch.setattr(stores, "FIRST_WAIT_S", 0.001)
    monkeypatch.setattr(stores, "MAX_WAIT_S", 0.001)


_SERVERS = [pytest.mark.nightly("starts a server of an object store")]


@pytest.fixture(
    params=["local", *(pytest.param(name, marks=_SERVERS) for name in ("s3", "gs", "az"))]
)
def folder(request, tmp_path):
    """Return an empty local folder, and one in a bucket of each kind."""
    if request.param == "local":
        return Location.of(tmp_path / "folder")
    if request.param == "s3":
        return request.getfixturevalue("bucket")
    return request.getfixturevalue("other_bucket")(request.param)


@pytest.fixture
def uploaded(bucket):
    """Return a function that uploads a local folder to the bucket."""

    def upload(source):
        target = bucket / source.name
        for file in sorted(source.rglob("*")):
            if file.is_file():
                target.join(file.relative_to(source).as_posix()).upload(file)
        return target

    return upload
