"""The program of a rank in a step: work and collectives, depending on its place in the layout."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from made_runs.layout import Layout


@dataclass(frozen=True)
class Work:
    """GPU work as a sequence of kernels."""

    name: str
    phase: str
    dur_ns: int
    kernel_count: int = 1


@dataclass(frozen=True)
class Collective:
    """A collective in one of the groups of the rank."""

    dimension: str
    kind: Literal["allreduce", "allgather", "reducescatter", "alltoall"]
    nelems: int
    transfer_ns: int
    phase: str
    is_dispatch: bool = False


@dataclass(frozen=True)
class Pass:
    """A send to a pipeline stage, or a receive from one."""

    stage: int
    is_send: bool
    nelems: int
    transfer_ns: int
    phase: str


Op = Work | Collective | Pass


@dataclass(frozen=True)
class Step:
    """A step: micro-batches of layers forward and backward, then the optimizer.

    Times are of one rank and one micro-batch, for the layers of one stage together, ns.
    """

    forward_ns: int = 400_000
    backward_ns: int = 800_000
    optimizer_ns: int = 200_000
    microbatches: int = 1
    layers: int = 2
    kernels: int = 3
    schedule: Literal["gpipe", "1f1b"] = "1f1b"
    transfer_ns: int = 40_000
    pass_ns: int = 1_000
    nelems: int = 1_000_000
    steps: int = 2
    has_world_end: bool = True

    def program(self, layout: Layout, rank: int) -> Iterator[Op]:
        """Yield the ops of a rank in one step."""
        _, _, stage = layout.place(rank)
        for is_forward in self.order(layout.pipeline, stage):
            yield from self._forward(layout, stage) if is_forward else self._backward(layout, stage)
        if layout.data > 1:
            yield Collective("data", "allreduce", self.nelems, 2 * self.transfer_ns, "backward")
        if self.has_world_end and layout.world_size > 1:
            # The gradient norm, in which all ranks take part.
            yield Collective("world", "allreduce", 1, self.transfer_ns // 4, "optimizer")
        yield Work("optimizer", "optimizer", self.optimizer_ns)

    def order(self, stages: int, stage: int) -> list[bool]:
        """Return the passes of a stage in order, True for forward."""
        count = self.microbatches
        ahead = count if self.schedule == "gpipe" else min(count, stages - stage)
        order = [True] * ahead
        for number in range(count):
            order.append(False)
            if ahead + number < count:
                order.append(True)
        return order

    def _forward(self, layout: Layout, stage: int) -> Iterator[Op]:
        if stage > 0:
            yield Pass(stage - 1, False, self.nelems, self.pass_ns, "forward")
        for layer in range(self.layers):
            part = self.forward_ns // self.layers
            yield Work(f"layer{layer}", "forward", part, self.kernels)
            if layout.tensor > 1:
                yield Collective("tensor", "allreduce", self.nelems, self.transfer_ns, "forward")
            if layout.expert > 1:
                for is_dispatch in (True, False):
                    yield Collective(
                        "expert", "alltoall", self.nelems, self.transfer_ns, "forward", is_dispatch
                    )
        if stage + 1 < layout.pipeline:
            yield Pass(stage + 1, True, self.nelems, self.pass_ns, "forward")

    def _backward(self, layout: Layout, stage: int) -> Iterator[Op]:
        if stage + 1 < layout.pipeline:
            yield Pass(stage + 1, False, self.nelems, self.pass_ns, "backward")
        for layer in reversed(range(self.layers)):
            part = self.backward_ns // self.layers
            yield Work(f"layer{layer}", "backward", part, self.kernels)
            if layout.tensor > 1:
                yield Collective("tensor", "allreduce", self.nelems, self.transfer_ns, "backward")
        if stage > 0:
            yield Pass(stage - 1, True, self.nelems, self.pass_ns, "backward")
