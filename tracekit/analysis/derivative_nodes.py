"""Which nodes of autograd have ops with sequence numbers and recompute nothing by them.

A backward pass runs with grad mode off, and what its nodes compute has no sequence number. Where it
has one, either forward work runs again for the backward pass, as activation checkpointing has it,
or the whole pass runs with grad mode on (``create_graph=True``, ``torch.func.grad``), because a
derivative of its gradients is wanted.

What a node runs last tells them apart. Checkpointing runs forward work again where a node asks for
a saved tensor, or in a backward pass inside of the node; behind it the node computes its gradient,
in the grad mode of the pass. A node that torch generated (``MmBackward0``) always does. One that a
program wrote may run nothing of torch's behind it, so one beside it in the pass must agree.

A Function of the program's has a number in every grad mode. A node that calls one (the backward
pass of a collective is a collective) recomputes only if an op of torch's has a number in it, if
another node runs inside of it, or if a Function in it ends with the detaching of a tensor that it
saves: checkpointing runs again what saved a tensor, and keeps of that one its values alone.
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
    """Whether the last op directly inside has a number; None where it is a node, or nothing."""
    has_function: bool = False
    function_end_ns: int = 0
    is_in_grad_mode: bool = False
    ends_saving: bool = False
    """The last op inside of its latest Function detaches a tensor."""


class DerivativeNodes:
    """Writes the nodes whose numbered ops run nothing again, as the spans of a thread go by.

    Args:
        file: gets one JSON array for each such node: trace, number of its event, and 1
            where its pass has a derivative, 0 where it calls Functions alone.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._trace_id = 0
        self._open: list[_Node] = []
        self._is_pass_numbered = False
        self._undecided: list[int] = []

    def begin_thread(self, trace_id: int) -> None:
        """Take the spans of another thread from here on."""
        self._close(None)
        self._trace_id = trace_id
        self._is_pass_numbered = False
        self._undecided.clear()

    def begin_node(self, start_ns: int, end_ns: int, event_id: int, *, is_generated: bool) -> None:
        """A node begins, perhaps inside of another."""
        self._close(start_ns)
        if self._open:
            self._open[-1].ran_last = None
            self._open[-1].is_in_grad_mode = True
        self._open.append(_Node(event_id, end_ns, is_generated))

    def run_op(
        self, start_ns: int, end_ns: int, node_id: int, name: str, *, has_number: bool
    ) -> None:
        """An op begins directly inside of a node."""
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
        """An op begins inside of an op of a node."""
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
