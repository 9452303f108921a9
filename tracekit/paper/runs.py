"""Finds the runs for the tables of arXiv 2311.03687, and reads the manifests of these runs."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from tracekit import manifest
from tracekit.analysis.result import Result
from tracekit.errors import TraceError
from tracekit.ingest.sources import find_runs
from tracekit.manifest import Manifest
from tracekit.storage import Place

Ask = Callable[..., Result]
"""Runs an analysis on the traces of a run, `ask("phases")`; raises a `TracekitError`."""

# Vocabulary size of Llama2, and maximum size with added tokens, for example for padding.
_VOCABULARY = (32_000, 32_320)
# Hidden size, MLP size, and number of layers of the paper's Llama2 models.
_SHAPES = {
    "Llama2-7B": (4096, 11008, 32),
    "Llama2-13B": (5120, 13824, 40),
    "Llama2-70B": (8192, 28672, 80),
}
PARAMETER_COUNTS = {
    "Llama2-7B": 6_738_415_616,
    "Llama2-13B": 13_015_864_320,
    "Llama2-70B": 68_976_648_192,
}
"""Parameters of the paper's models, from their published configurations."""
_NAME = re.compile(r"llama-?2-?(7|13|70)b(?:-hf)?$")


class OurRun(Struct, frozen=True):
    label: str
    manifest: Manifest
    ask: Ask

    @property
    def paper_model(self) -> str | None:
        """The paper's name of the model; None for other models and fewer layers."""
        return None if self.full_layer_count is not None else self.base_model

    @property
    def model(self) -> str:
        model, full = self.manifest.model, self.full_layer_count
        if model is None:
            return "unknown"
        return f"{model.name}, {self.layer_count} of {full} layers" if full else model.name

    @property
    def base_model(self) -> str | None:
        """The paper's name of the model, by shape or else by name; it may have fewer layers."""
        model = self.manifest.model
        if model is None:
            return None
        if "hidden_size" not in model.config:
            match = _NAME.search(model.name.lower().rstrip("/"))
            return f"Llama2-{match[1]}B" if match else None
        size = model.config.get("vocab_size", _VOCABULARY[0])
        if not isinstance(size, int) or not _VOCABULARY[0] <= size <= _VOCABULARY[1]:
            return None
        shape = model.config["hidden_size"], model.config.get("intermediate_size")
        return next((name for name, known in _SHAPES.items() if shape == known[:2]), None)

    @property
    def layer_count(self) -> int | None:
        model = self.manifest.model
        if model is None:
            return None
        if model.layer_count is not None:
            return model.layer_count
        stated = model.config.get("num_hidden_layers")
        return stated if isinstance(stated, int) else None

    @property
    def full_layer_count(self) -> int | None:
        """Number of layers of the paper's model if the run has fewer; else None."""
        if self.base_model is None or self.layer_count is None:
            return None
        full = _SHAPES[self.base_model][2]
        return None if self.layer_count == full else full

    @property
    def parameter_count(self) -> int | None:
        """Number of parameters of the model with all layers."""
        if self.base_model is not None:
            return PARAMETER_COUNTS[self.base_model]
        return self.manifest.model.parameter_count if self.manifest.model else None

    @property
    def method(self) -> frozenset[str]:
        return frozenset((self.manifest.opt or "").split("+")) - {""}

    @property
    def hardware(self) -> str:
        environment = self.manifest.environment
        if environment.devices:
            counts = Counter(environment.devices).items()
            return ", ".join(f"{count} × {name}" for name, count in counts)
        processor = environment.processor or "CPU"
        cores = environment.core_count
        return f"{processor}, {cores} cores" if cores else processor


class OurRuns(Struct, frozen=True):
    runs: tuple[OurRun, ...]
    problems: tuple[str, ...]


def find_our_runs(paths: Sequence[str | Path], ask_of: Callable[[Place], Ask]) -> OurRuns:
    folders = find_runs(paths)
    if not folders:
        raise TraceError(
            f"{', '.join(map(str, paths))}: no run found",
            hint=f"a run is a folder with {manifest.FILE_NAME}, written by tracekit collect",
        )
    names = _names_of(folders)
    runs, problems = [], []
    for folder, name in zip(folders, names, strict=True):
        try:
            stated = manifest.read(folder)
        except TraceError as error:
            problems.append(error.message)
        else:
            runs.append(OurRun(name, stated, ask_of(folder)))
    return OurRuns(tuple(runs), tuple(problems))


def _names_of(folders: Sequence[Place]) -> list[str]:
    local = [folder for folder in folders if isinstance(folder, Path)]
    if len(local) < len(folders):
        return [*map(str, folders)]
    above = Path(os.path.commonpath(local)) if len(local) > 1 else local[0].parent
    return [str(folder.relative_to(above)) for folder in local]


def layer_count_of(model: str | None) -> int | None:
    return _SHAPES[model][2] if model in _SHAPES else None
