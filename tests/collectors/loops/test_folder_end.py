"""What a program has left running writes into the working folder while that is removed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tracekit.collectors.loop import folder as loop_folder
from tracekit.collectors.loop.plan import LoopPlan


def test_nothing_can_be_written_into_a_folder_that_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = loop_folder.LoopFolder(tmp_path / "run", LoopPlan(), ["python"], "1.here", force=False)
    made.open()
    (made.work / "report").touch()
    remove = shutil.rmtree

    def write_and_remove(path: Path, **how: Any) -> None:
        with pytest.raises(FileNotFoundError):
            (made.work / "late").touch()
        remove(path, **how)

    monkeypatch.setattr(loop_folder.shutil, "rmtree", write_and_remove)
    made.close()
    assert list(tmp_path.iterdir()) == []
    made.close()  # a second time is nothing
    assert list(tmp_path.iterdir()) == []
