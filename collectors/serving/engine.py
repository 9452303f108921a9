"""Interface of serving engines, over HTTP or embedded.

An engine is a module in `engines`. Its `create(values, redactor)` returns a `ServingEngine` without
starting anything or importing torch.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field

from tracekit.manifest import Model, Parallel

from .plan import LoadPlan, LoadResult, Progress

Echo = Callable[[str], None]


class EngineFacts(Struct, frozen=True):
    """Properties that an engine reports after its start; unknown ones are None.

    `vocabulary_size` is the upper limit for random token ids. An engine that accepts only text has
    `count_tokens`. `profile_note` explains why no profile is possible. `server` is written to the
    manifest.
    """

    model: Model | None = None
    vocabulary_size: int | None = None
    count_tokens: Callable[[str], int | None] | None = None
    max_token_count: int | None = None
    precision: str | None = None
    attention_backend: str | None = None
    attention_reason: str | None = None
    parallel: Parallel = field(default_factory=Parallel)
    can_profile: bool = True
    profile_note: str | None = None
    server: dict[str, Any] = field(default_factory=dict)


class ServingEngine(Protocol):
    """An engine under load. Methods are called in the order start, run, close, from one thread."""

    def start(self, folder: Path, echo: Echo) -> EngineFacts:
        """Start the engine and wait until it is ready; logs go to `logs/` of the run folder."""
        ...

    def run(self, plan: LoadPlan, folder: Path, progress: Progress) -> LoadResult:
        """Run the warm-up, the measured requests, and the profiled window, if any.

        On Ctrl-C, every unfinished request is recorded as `cancelled`, and the result has
        `interrupted` set; no exception is raised. Trace files are written to the folder as
        `rank<N>.json.gz`.
        """
        ...

    def close(self) -> None:
        """Stop everything that `start` began; called once, even after an error."""
        ...
