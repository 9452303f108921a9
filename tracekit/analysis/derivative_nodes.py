"""Finds autograd nodes with sequence-numbered ops that do not recompute anything.

A backward pass runs with grad mode off, so its ops have no sequence numbers. If they do, either
forward work is recomputed (activation checkpointing), or the complete pass runs with grad mode on
(``create_graph=True``, ``torch.func.grad``), because its gradients are differentiated.

The last op of a node distinguishes the two cases. Checkpointing recomputes when a node unpacks a
saved tensor, or in a backward pass inside the node. Afterwards, the node computes its gradient in
the grad mode of the pass. A node that torch generated (``MmBackward0``) always ends this way. A
user-defined node may run no torch op after recomputing, so a generated node in the pass must
confirm that the pass is differentiated: the previous one, or else the next.

A user-defined Function has a sequence number in any grad mode. A node that calls one (the backward
pass of a collective is a collective) recomputes only if a torch op in it has a sequence number, if
another node runs inside it, or if a Function in it ends by detaching a tensor that it saves.
Checkpointing reruns the op that saved a tensor and saves only the detached result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

_DETACH = frozenset(("aten::detach", "detach"))


@dataclass(slots=True)
class _Node:
    event_id: int
    end_ns: int
    is_generated: bool
    ran_last: bool | None = None
    """Whether the last op directly inside has a sequence number; None without one or for a node."""
    has_function: bool = False
    function_end_ns: int = 0
    is_in_grad_mode: bool = False
    ends_saving: bool = False
    """Whether the last op inside the latest Function of the node detaches a tensor."""


class DerivativeNodes:
    """Writes nodes that recompute nothing, while the spans of a thread are read.

    Args:
        file: receives a JSON array per node: trace_id, event_id, and 1 if the backward pass is
            differentiated, or 0 if the node only calls Functions.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._trace_id = 0
        self._open: list[_Node] = []
        self._is_pass_numbered = False
        self._undecided: list[int] = []

    def begin_thread(self, trace_id: int) -> None:
        """Begin the next thread."""
        self._close(None)
        self._trace_id = trace_id
        self._is_pass_numbered = False
        self._undecided.clear()

    def begin_node(self, start_ns: int, end_ns: int, event_id: int, *, is_generated: bool) -> None:
        """Process the start of a node, which may be nested."""
        self._close(start_ns)
        if self._open:
            self._open[-1].ran_last = None
            self._open[-1].is_in_grad_mode = True
        self._open.append(_Node(event_id, end_ns, is_generated))

    def run_op(
        self, start_ns: int, end_ns: int, node_id: int, name: str, *, has_number: bool
    ) -> None:
        """Process the start of an op directly inside a node."""
        self._close(start_ns)
        if self._open and self._open[-1].event_id == node_id:
            node = self._open[-1]
            node.ran_last = has_number
            if node.ends_saving or (has_number and "::" in name):
                node.is_in_grad_mode = True
            elif has_number:
                node.has_function = True
                node.function_end_ns = end_ns

    def run_inner_op(self, start_ns: int, node_id: int, name: str) -> None:
        """Process the start of an op inside an op of a node."""
        self._close(start_ns)
        if self._open and self._open[-1].event_id == node_id:
            node = self._open[-1]
            if start_ns < node.function_end_ns:
                node.ends_saving = name in _DETACH

    def _close(self, at_ns: int | None) -> None:
        while self._open and (at_ns is None or self._open[-1].end_ns <= at_ns):
            self._decide(self._open.pop())

    def _decide(self, node: _Node) -> None:
        if node.has_function and not (node.is_in_grad_mode or node.ends_saving):
            self._file.write(b"[%d, %d, 0]\n" % (self._trace_id, node.event_id))
            return
        if node.ran_last is None:
            return
        if node.is_generated:
            self._is_pass_numbered = node.ran_last
            if node.ran_last:
                self._write(node.event_id)
                for event_id in self._undecided:
                    self._write(event_id)
            self._undecided.clear()
        elif node.ran_last and self._is_pass_numbered:
            self._write(node.event_id)
        elif node.ran_last:
            self._undecided.append(node.event_id)

    def _write(self, event_id: int) -> None:
        self._file.write(b"[%d, %d, 1]\n" % (self._trace_id, event_id))
