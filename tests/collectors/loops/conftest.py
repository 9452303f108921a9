"""The fixture that runs training loops."""

from pathlib import Path

import pytest
from _loops import Loops


@pytest.fixture(scope="session")
def loops(tmp_path_factory):
    pytest.importorskip("torch")
    if not Path("/proc").is_dir():
        pytest.skip("finds the processes that a program leaves behind in /proc")
    made = Loops(tmp_path_factory.mktemp("loops"))
    yield made
    made.close()
