"""Settings of a bench run, passed to its worker processes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct

from tracekit.errors import UsageError
from tracekit.units import NS_PER_S, parse_bytes

from ..command_line import POSITIVE, Option, given, number
from ..options import FORCE, OUT
from . import collectives, gemm
from .point import FAMILIES

WHAT = {
    "gemm": ("gemm",),
    "memcpy": ("memcpy",),
    "collectives": ("collective",),
    "launches": ("launch",),
    "all": FAMILIES,
}
"""Families of points by the command's argument."""

SCALES = ("small", "full")

_MAX_SIDE = 2**31 - 1
_OPS = {
    "gemm": ("mm", "scaled_mm", "grouped_mm"),
    "memcpy": ("h2d", "d2h", "d2d", "h2h"),
    "collective": collectives.OPS,
    "launch": ("empty_kernel", "graph_replay", "stream_sync", "op_call"),
}
_of_points = partial(Option, group="Points")

OPTIONS: tuple[Option, ...] = (
    OUT.but(default="runs/bench-<what>-<time>"),
    FORCE,
    Option(
        "--device",
        "device to measure",
        click.Choice(("cuda", "cpu")),
        default="cuda if a GPU is available",
    ),
    Option(
        "--nproc",
        "local ranks for collectives; set by torchrun if it starts the command",
        POSITIVE,
        default="number of GPUs; 2 without GPUs",
    ),
    Option(
        "--backend",
        "backend of the collectives",
        click.Choice(("nccl", "gloo")),
        default="nccl on GPUs, else gloo",
    ),
    Option(
        "--dtype",
        f"GEMM types, separated by commas: {', '.join(gemm.DTYPES)}; also for collectives "
        "if only they are measured",
        default="all types of the device; fp32 for collectives",
        metavar="LIST",
    ),
    Option(
        "--ops",
        "measure only these operations, separated by commas: "
        f"{', '.join(op for ops in _OPS.values() for op in ops)}",
        metavar="LIST",
    ),
    _of_points(
        "--sizes",
        "small (for a CPU), full (as in arXiv 2311.03687), or a comma-separated list: "
        "MxNxK for GEMMs, bytes (1MiB) for copies and collectives",
        default="full on a GPU, else small",
        metavar="LIST",
    ),
    _of_points(
        "--seconds-per-point",
        "time limit per point; a minimum number of samples is always taken",
        number(NS_PER_S),
        default=0.25,
        metavar="S",
    ),
    _of_points(
        "--width",
        "stop a point once the 95 % confidence interval of the median is this narrow, percent",
        number(100),
        default=2,
        metavar="PCT",
    ),
)
"""The options of `tracekit bench`."""


class Settings(Struct, frozen=True):
    """Selection of points; `shapes` (M, N, K) and `sizes_bytes` replace the values of the scale."""

    families: tuple[str, ...]
    device: str | None = None
    rank_count: int | None = None
    backend: str | None = None
    dtypes: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    scale: str | None = None
    shapes: tuple[tuple[int, int, int], ...] = ()
    sizes_bytes: tuple[int, ...] = ()
    point_s: float = 0.25
    width_pct: float = 2.0

    @property
    def most_point_s(self) -> float:
        return math.ceil(120 + 40 * self.point_s)

    def write(self, path: Path) -> None:
        path.write_bytes(msgspec.json.encode(self))

    @classmethod
    def read(cls, path: Path) -> Settings:
        return msgspec.json.decode(path.read_bytes(), type=cls)


def validated(what: str, values: Mapping[str, Any]) -> tuple[Settings, dict[str, Any]]:
    """Validate the arguments; return the settings and the other options (`out` and `force`)."""
    options = given(values, OPTIONS)
    families = WHAT[what]
    scale, shapes, sizes_bytes = _sizes(options.pop("sizes", None), families)
    rank_count = options.pop("nproc", None)
    if rank_count is not None and "collective" not in families:
        raise UsageError(f"--nproc {rank_count} applies only to collectives")
    device, backend = options.pop("device", None), options.pop("backend", None)
    if backend == "nccl" and device == "cpu":
        raise UsageError("--backend nccl needs GPUs, and --device is cpu")
    dtype = options.pop("dtype", None)
    if dtype is not None and not {"gemm", "collective"} & set(families):
        raise UsageError("--dtype applies only to GEMMs and collectives")
    dtypes = gemm.DTYPES if "gemm" in families else collectives.DTYPES
    settings = Settings(
        families=families,
        device=device,
        rank_count=rank_count,
        backend=backend,
        dtypes=_chosen("--dtype", dtype, dtypes),
        ops=_chosen(
            "--ops", options.pop("ops", None), [op for one in families for op in _OPS[one]]
        ),
        scale=scale,
        shapes=shapes,
        sizes_bytes=sizes_bytes,
        point_s=options.pop("seconds_per_point", 0.25),
        width_pct=options.pop("width", 2.0),
    )
    return settings, options


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _chosen(name: str, text: str | None, options: Iterable[str]) -> tuple[str, ...]:
    words = _words(text or "")
    for word in words:
        if word not in options:
            raise UsageError(f"{name} {word!r}: expected one of {', '.join(options)}")
    return tuple(dict.fromkeys(words))


def _sizes(
    text: str | None, families: tuple[str, ...]
) -> tuple[str | None, tuple[tuple[int, int, int], ...], tuple[int, ...]]:
    if text is None or text in SCALES:
        return text, (), ()
    shapes, sizes_bytes = [], []
    for word in _words(text):
        shape = re.fullmatch(r"(\d+)[x×](\d+)[x×](\d+)", word)
        if shape:
            m, n, k = (int(side) for side in shape.groups())
            if not all(1 <= side <= _MAX_SIDE for side in (m, n, k)):
                raise UsageError(f"--sizes {word}: every side must be from 1 to {_MAX_SIDE}")
            shapes.append((m, n, k))
        else:
            try:
                size_bytes = parse_bytes(word)
            except ValueError as error:
                raise UsageError(f"--sizes: {error}") from None
            if size_bytes < 1:
                raise UsageError(f"--sizes {word}: a size must be at least 1 byte")
            sizes_bytes.append(size_bytes)
    if shapes and "gemm" not in families:
        raise UsageError(
            "--sizes of the form MxNxK apply only to GEMMs", hint="for example 1KiB,1MiB"
        )
    if sizes_bytes and not {"memcpy", "collective"} & set(families):
        hint = "for example 512x512x512" if "gemm" in families else None
        raise UsageError("--sizes in bytes apply only to copies and collectives", hint=hint)
    if not shapes and not sizes_bytes:
        raise UsageError("--sizes is empty", hint=f"or one of {', '.join(SCALES)}")
    return None, tuple(shapes), tuple(sizes_bytes)
