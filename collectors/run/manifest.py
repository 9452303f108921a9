"""Builds the manifest of a run and the text of its summary."""

from __future__ import annotations

import datetime
import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tracekit import __version__
from tracekit.errors import TracekitError
from tracekit.manifest import Manifest, Overhead, Stage
from tracekit.redaction import mask_text
from tracekit.units import format_duration

from .environment import of_ranks


def sentence(error: BaseException) -> str:
    if isinstance(error, TracekitError):
        return error.message
    text = mask_text(str(error).strip().split("\n", 1)[0][:300])
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def write_atomically(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    partial.write_text(text, "utf-8")
    partial.replace(path)


def manifest_of(stage: Stage, engine: str, command: Sequence[str], **members: Any) -> Manifest:
    if "environment" not in members:
        members["environment"] = of_ranks([])
    return Manifest(
        run_id=uuid.uuid4().hex,
        tracekit_version=__version__,
        created_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        stage=stage,
        engine=engine,
        command=list(command),
        **members,
    )


def rate_text(run: Manifest) -> str:
    if run.tokens_per_s_mean is None:
        return "? tokens/s"
    spread = "" if run.tokens_per_s_std is None else f" ± {run.tokens_per_s_std:,.0f}"
    return f"{run.tokens_per_s_mean:,.0f}{spread} tokens/s"


def step_cost(overhead: Overhead, plain_step_ns: Sequence[int]) -> str:
    """Describe median step times, not differences: steps vary by more than ranges cost."""
    text = f"step {format_duration(overhead.plain_step_ns or 0)}"
    if len(plain_step_ns) > 1:
        text += f" ({format_duration(min(plain_step_ns))} to {format_duration(max(plain_step_ns))})"
    if overhead.ranges_step_ns is not None:
        text += f"; with ranges {format_duration(overhead.ranges_step_ns)}"
    if overhead.profiled_step_ns is not None:
        text += f"; with ranges and profiler {format_duration(overhead.profiled_step_ns)}"
    return text
