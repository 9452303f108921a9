"""What a step of an embedded engine works on: which requests, how many tokens, in which phase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

StepPhase = Literal["prefill", "decode", "mixed"]


@dataclass(frozen=True, slots=True)
class Share:
    """The part that one request has in one step.

    `is_prefill` says that the tokens are of the prompt, be it one token of it; `gives_token` that
    the step makes a new token of the request, which the last part of a prompt does as well.
    """

    request_id: str
    token_count: int
    is_prefill: bool
    gives_token: bool


@dataclass(frozen=True, slots=True)
class Batch:
    """What one step works on. `number` is that of the range `tk/step/<number>`."""

    number: int
    shares: Sequence[Share]

    @property
    def phase(self) -> StepPhase:
        """The phase of the step: `mixed` if some requests are in prefill and some in decode."""
        kinds = {share.is_prefill for share in self.shares}
        if len(kinds) == 2:
            return "mixed"
        return "prefill" if True in kinds else "decode"

    @property
    def range_name(self) -> str:
        """The name of the range that tells the composition, in the order that vLLM uses."""
        counts = {True: 0, False: 0}
        tokens = {True: 0, False: 0}
        for share in self.shares:
            counts[share.is_prefill] += 1
            tokens[share.is_prefill] += share.token_count
        return (
            f"tk/batch/prefill_{counts[True]}({tokens[True]})_decode_{counts[False]}"
            f"({tokens[False]})"
        )


def add_step(steps: list[list[int]], number: int) -> None:
    """Add a step to the ranges of steps that served a request; numbers only grow.

    Args:
        steps: ranges with both ends included, changed in place.
        number: the step's number.
    """
    if steps and steps[-1][1] >= number - 1:
        steps[-1][1] = max(steps[-1][1], number)
    else:
        steps.append([number, number])
