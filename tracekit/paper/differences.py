"""What the setup of a run differs in from that of the row of the paper that it stands beside.

Only what the paper states is compared. What the run does not state differs as well: it is not known
to be the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tracekit.paper.matching import BATCH_IS_RESULT, is_key
from tracekit.paper.runs import OurRun
from tracekit.paper.tables import PaperTable, Row

MARKS = {
    "M": "model",
    "L": "layers",
    "D": "devices",
    "F": "framework",
    "P": "precision",
    "B": "batch size",
    "S": "sequence length",
    "W": "world size",
    "R": "requests",
}
"""What a letter in column `mark` says to differ, in the order of the letters there."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact of the setup that differs: its letter, ours and the paper's as text."""

    mark: str
    ours: str
    paper: str

    @property
    def fact(self) -> str:
        """The name of the fact: `batch size`."""
        return MARKS[self.mark]

    def __str__(self) -> str:
        return f"{self.fact} {self.ours}, not {self.paper}"


def find_differences(table: PaperTable, row: Row, run: OurRun) -> tuple[Difference, ...]:
    """Return what a run differs in from a row of a table, in the order of :data:`MARKS`."""
    if "stage" not in table.setup:
        return ()
    stated = run.manifest
    found = [*_of_model(table, row, run)]

    def compare(mark: str, ours: object, paper: object, *, is_same: bool | None = None) -> None:
        if is_same is None:
            is_same = ours == paper
        if paper is not None and not is_same:
            found.append(Difference(mark, "not stated" if ours is None else str(ours), str(paper)))

    platform = table.fact(row, "platform")
    compare("D", run.hardware, platform, is_same=_has_devices(run, platform))
    framework = table.fact(row, "framework")
    compare("F", stated.engine, framework, is_same=stated.engine == str(framework).lower())
    compare("P", stated.precision, table.fact(row, "precision"))
    if stated.stage != "serve" and table.name not in BATCH_IS_RESULT:
        is_kept = is_key(table, "batch_size")
        compare("B", stated.batch_size, None if is_kept else table.fact(row, "batch_size"))
    compare("S", stated.sequence_length, table.fact(row, "sequence_length"))
    compare("W", stated.parallel.world_size, table.fact(row, "world_size"))
    if stated.stage == "serve":
        compare("R", _our_requests(run), _requests(*map(table.setup.get, _REQUESTS)))
    return tuple(found)


def _of_model(table: PaperTable, row: Row, run: OurRun) -> list[Difference]:
    model = table.fact(row, "model")
    if model is None or run.paper_model == model:
        return []
    if run.base_model != model:
        return [Difference("M", run.model, str(model))]
    return [Difference("L", str(run.layer_count), str(run.whole_layer_count))]


def _has_devices(run: OurRun, platform: object) -> bool:
    """Whether all accelerators of a run are those of a platform: `RTX3090 w/ NVLink`, `A800`."""
    name = _plain(str(platform).partition(" ")[0])
    devices = run.manifest.environment.devices
    return bool(devices) and all(name in _plain(device) for device in devices)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


_REQUESTS = ("batch_size", "prompt_length", "output_length")


def _our_requests(run: OurRun) -> str | None:
    load = run.manifest.load
    if load is None:
        return None
    return _requests(load.request_count, load.prompt_token_count, load.max_new_token_count)


def _requests(count: object, prompt: object, output: object) -> str | None:
    if None in (count, prompt, output):
        return None
    return f"{count} of {prompt} + {output} tokens"
