"""Datasets of small runs, made where a test says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tracekit.engine.ingesting import ingest_dataset
from tracekit.engine.many_ranks import EngineChoice

SERIAL = EngineChoice("serial", worker_count=3)


def make(folder: Path, name: str = "run.tracekit", **options: Any) -> Path:
    """Make a dataset of the folder `run` beside it."""
    ingest_dataset([folder / "run"], folder / name, engine=SERIAL, **options)
    return folder / name
