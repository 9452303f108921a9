"""Files that are read whole have a bound, of this machine and behind URLs."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from web_server import WebServer

from tracekit import manifest
from tracekit.checking import baseline, rules_file
from tracekit.errors import StoreError, TraceError, UsageError
from tracekit.storage import Location

LONGER = "longer than 100 bytes, the most that is read of such a file"


def test_a_longer_file_is_not_read_whole(folder: Location) -> None:
    file = folder / "run.json"
    file.write_bytes(b"x" * 100)
    assert file.read_bytes(100) == b"x" * 100
    file.write_bytes(b"x" * 101)
    with pytest.raises(OSError, match=LONGER) as caught:
        file.read_bytes(100)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(file))


def test_a_longer_file_of_a_web_server_is_not_read_whole(web: WebServer) -> None:
    web.files["run.json"] = b"x" * 101
    with pytest.raises(OSError, match=LONGER) as caught:
        Location.of(f"{web.url}run.json").read_bytes(100)
    assert caught.value.errno == errno.EFBIG


@pytest.fixture
def endless() -> Path:
    """Return a file without an end, of which reading all would end only with the memory."""
    path = Path("/dev/zero")
    if not path.exists():
        pytest.skip("there is no /dev/zero")
    return path


def test_an_endless_manifest_is_refused(endless: Path) -> None:
    with pytest.raises(TraceError, match=r"the manifest cannot be read: longer than 32,000,000"):
        manifest.read(endless)


def test_endless_rules_and_pyproject_are_refused(endless: Path) -> None:
    with pytest.raises(UsageError, match=r"longer than 32,000,000 bytes"):
        rules_file.load_rules(endless)
    assert not rules_file.has_rules(endless)


def test_an_endless_baseline_is_refused(endless: Path, tmp_path: Path) -> None:
    link = tmp_path / f"x{baseline.SUFFIX}"
    link.symlink_to(endless)
    with pytest.raises(StoreError, match=r"cannot be read: longer than 64,000,000 bytes"):
        baseline.load(str(link), tmp_path)
