"""The language that describes changes to a run.

    class=gemm module=*.mlp x0.5    device work that matches all terms; * and ? are wildcards
    host x0.5                       keyword; terms restrict it
    host x0-0.1                     a tenth remains; at best, nothing

A change is one string. :data:`KEYWORDS` has the actions of each keyword; :data:`EXAMPLES` explains
them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from msgspec import Struct

from tracekit.errors import UsageError

COLUMNS: Mapping[str, str] = {
    "class": "class",
    "kind": "work_kind",
    "op": "op",
    "range": "range",
    "call": "call",
    "module": "module",
    "name": "name",
    "phase": "phase",
    "step": "step",
    "rank": "rank",
    "device": "device",
    "stream": "stream",
    "group": "pg_name",
}
"""Terms that select work, and their columns in table ``edge_fact``.

Ranges and calls are not columns of that table: a range is an annotation or Python call of
``event``, a call is a runtime or driver call.
"""

SCALE, REMOVE, WORKERS = "scale", "remove", "workers"
MEDIAN, HIDE, MOVE = "median", "hide", "move"
LIMIT, TOKENS, APART = "limit", "tokens", "apart"
ON, OFF, FUSED = "on", "off", "fused"
SIZE, STAGE = "size", "stage"

KEYWORDS: Mapping[str, tuple[str, ...]] = {
    "host": (SCALE, REMOVE),
    "python": (SCALE, REMOVE),
    "launches": (SCALE, REMOVE),
    "graph": (ON,),
    "compile": (ON,),
    "sync": (REMOVE,),
    "loading": (SCALE, REMOVE, WORKERS),
    "pauses": (SCALE, REMOVE),
    "bandwidth": (SCALE,),
    "latency": (SCALE,),
    "group": (SIZE,),
    "algorithm": (MOVE,),
    "overlap": (HIDE,),
    "ranks": (MEDIAN,),
    "device": (MOVE,),
    "precision": (MOVE,),
    "recompute": (ON, OFF),
    "optimizer": (FUSED,),
    "norm": (FUSED,),
    "attention": (FUSED,),
    "accumulate": (SCALE,),
    "offload": (ON, OFF),
    "zero": (STAGE,),
    "rate": (SCALE,),
    "batch": (LIMIT, TOKENS),
    "kv": (TOKENS,),
    "prefill": (APART,),
}

EXAMPLES: Mapping[str, str] = {
    "class=gemm x0.5": "scale the time of a class; also by module, op, phase, or name",
    "op=aten::item remove": "remove an op and all that it launches",
    "range=augment remove": "remove a range or Python call of the program",
    "call=cudaMalloc remove": "remove a runtime or driver call",
    "host phase=forward x0.5": "scale the CPU time of a phase",
    "python remove": "remove CPU time outside ops",
    "launches x0.5": "scale launch calls",
    "graph on": "capture each step in a CUDA graph",
    "compile on": "torch.compile: fuse the kernels between GEMMs and reduce host time",
    "sync op=aten::item remove": "remove a wait of the CPU for the GPU",
    "loading workers=2": "load batches ahead in DataLoader workers; also remove, x0.5",
    "pauses remove": "remove recurring host stalls, in which no thread has an event",
    "bandwidth x2": "scale the bandwidth of collectives",
    "latency x0.5": "scale the latency of collectives",
    "group size=8": "number of ranks per collective",
    "algorithm=tree": "collective algorithm; also ring, halving",
    "overlap": "overlap gradient reductions with the backward pass",
    "ranks=median": "let all ranks compute as fast as the median rank",
    "device=H100 SXM": "run compute on another device, scaled by data-sheet peaks",
    "precision=bf16": "run 32-bit GEMMs in another type",
    "batch=8": "another batch size or sequence length, from runs of other sizes",
    "recompute on module=model.layers.*": "gradient checkpointing; also off",
    "optimizer fused": "use one fused optimizer kernel instead of many",
    "norm fused": "fuse the kernels of each norm",
    "attention fused": "fuse the kernels of attention",
    "accumulate x2": "micro-batches per step",
    "offload off": "remove the copies of an offloaded optimizer",
    "zero stage=2": "use ZeRO-2 in a run of ZeRO-3",
    "rate x2": "serving: requests per second",
    "batch limit=8": "serving: concurrent requests; batch tokens=512: tokens per step",
    "kv tokens=65536": "serving: tokens in the KV cache",
    "prefill apart": "serving: a separate engine for prefill",
}

SERVING = frozenset({"rate", "batch", "kv", "prefill"})
"""Keywords of changes that are simulated instead of replayed."""

LAST = ("recompute", "accumulate")
"""Keywords of changes that are applied last, because they depend on the changed work."""

_FACTOR = re.compile(r"[x×*](?:(?P<least>\d+(?:\.\d*)?|\.\d+)-)?(?P<factor>\d+(?:\.\d*)?|\.\d+)")
_TERM = re.compile(r"(?P<column>[a-z]+)=(?P<glob>\S+)")
_COUNT = re.compile(
    r"(?P<what>workers=(?=\d{1,4}$)|limit=|tokens=|size=(?=\d{1,6}$)|stage=(?=[0-3]$))"
    r"(?P<count>\d{1,9})"
)
_SIZE = re.compile(
    r"(?P<what>batch|sequence)=(?P<count>[1-9]\d{0,8})"
    r"(?: of=(?P<sizes>[1-9]\d{0,8}(?:,[1-9]\d{0,8})+))?"
)
_ACTION = re.compile(rf"remove|{_FACTOR.pattern}|{_COUNT.pattern}")
_ALONE = (HIDE, MEDIAN, MOVE, APART)
_FORMS = (
    ("overlap", HIDE, "overlap"),
    ("ranks", MEDIAN, "ranks=median"),
    ("prefill", APART, "prefill apart"),
    ("algorithm", MOVE, "algorithm=(ring|tree|halving)"),
    ("precision", MOVE, "precision=(bf16|fp16|tf32)"),
    ("device", MOVE, r"device=(\S.*)"),
)
"""Changes with a special form: keyword, action, and pattern with the name."""

_HINT = "for example: class=gemm x0.5; op=aten::item remove; host x0.5; loading workers=2"


class Change(Struct, frozen=True):
    """One change. `terms` are columns of ``edge_fact`` with globs, all of which must match.

    `keyword` is None for work selected by terms. For a range such as x0-0.1, `least` is the lower
    end. `count` is a number in the action, such as workers, and `device` the name of a device,
    algorithm, or type.
    """

    text: str
    keyword: str | None
    terms: tuple[tuple[str, str], ...]
    action: str
    factor: float = 1.0
    count: int = 0
    device: str = ""
    sizes: tuple[int, ...] = ()
    least: float | None = None


def parse_change(text: str) -> Change:
    if not isinstance(text, str):
        raise UsageError(f"a change is {text!r:.80}, expected a string", hint=_HINT)
    words = text.split()
    rest = " ".join(words)
    if sized := _SIZE.fullmatch(rest):
        sizes = tuple(map(int, re.findall(r"\d+", sized["sizes"] or "")))
        return Change(text, "size", (), sized["what"], count=int(sized["count"]), sizes=sizes)
    for keyword, action, pattern in _FORMS:
        match = re.fullmatch(pattern, rest)
        if match and not _ACTION.fullmatch(words[-1]):
            return Change(text, keyword, (), action, device="".join(match.groups()))
    if len(words) < 2:
        like = (f"for example: {one}" for one in EXAMPLES if one.split()[:1] == words)
        raise UsageError(
            f"{text!r} is not a change",
            hint=f"expected a target and an action, {next(like, _HINT)}",
        )
    if words[1] in (ON, OFF, FUSED):
        words.append(words.pop(1))
    *chosen, how = words
    target = chosen.pop(0) if "=" not in chosen[0] else None
    if target is not None and (target not in KEYWORDS or KEYWORDS[target][0] in _ALONE):
        raise UsageError(
            f"{text!r}: unknown target {target!r}",
            hint=f"columns: {', '.join(COLUMNS)}; keywords: {', '.join(KEYWORDS)}; "
            "tracekit predict TRACE lists examples",
        )
    terms = tuple(_term(text, word) for word in chosen)
    action, factor, count, least = _action(text, how)
    allowed = KEYWORDS[target] if target else (SCALE, REMOVE)
    if action not in allowed:
        raise UsageError(f"{text!r}: this action does not apply to {target or 'work'}", hint=_HINT)
    if target in (*SERVING, "graph", "compile", "optimizer", "offload") and terms:
        raise UsageError(f"{text!r}: {target} applies to the complete run and takes no terms")
    if target and not {"range", "call"}.isdisjoint(column for column, _ in terms):
        raise UsageError(f"{text!r}: {target} takes no range or call")
    if target in ("bandwidth", "latency", "rate", "accumulate") and factor <= 0:
        raise UsageError(f"{text!r}: the factor must be above 0")
    return Change(text, target, terms, action, factor, count, least=least)


def _term(text: str, word: str) -> tuple[str, str]:
    match = _TERM.fullmatch(word)
    if match is None or match["column"] not in COLUMNS:
        raise UsageError(
            f"{text!r}: {word!r} is not a term",
            hint=f"expected COLUMN=GLOB with one of the columns {', '.join(COLUMNS)}",
        )
    return COLUMNS[match["column"]], match["glob"]


def _action(text: str, how: str) -> tuple[str, float, int, float | None]:
    if how == "remove":
        return REMOVE, 0.0, 0, None
    if how in (ON, OFF, FUSED):
        return how, 1.0, 0, None
    if match := _FACTOR.fullmatch(how):
        factor = float(match["factor"])
        least = float(match["least"]) if match["least"] else None
        if not math.isfinite(factor) or factor > 1e6:
            raise UsageError(f"{text!r}: the factor must be at most 1,000,000")
        if least is not None and least > factor:
            raise UsageError(f"{text!r}: the range must start with the smaller factor")
        return SCALE, factor, 0, least
    if (match := _COUNT.fullmatch(how)) and int(match["count"]) > 0:
        return match["what"].rstrip("="), 1.0, int(match["count"]), None
    raise UsageError(
        f"{text!r}: unknown action {how!r}", hint="expected x0.5, remove, workers=2, limit=8, …"
    )
