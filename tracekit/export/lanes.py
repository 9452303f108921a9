"""Slices that overlap, on lanes on which none crosses another.

A track of Perfetto holds slices that nest or follow one another. Kernels of one stream may overlap
and a child may end after its parent, so a track that has such slices gets further lanes.
"""

from __future__ import annotations

from heapq import heappop, heappush

NESTING_LANES = 4
"""On so many lanes a slice is looked for a place inside of others; the lanes behind are flat, so
that the cost of a slice does not grow with how many overlap."""

_NEVER = -(1 << 63)
"""Before all times, ns."""


class FlatLanes:
    """Lanes on which one thing follows the other."""

    __slots__ = ("_busy", "_count", "_free")

    def __init__(self) -> None:
        self._free: list[int] = []
        self._busy: list[tuple[int, int]] = []
        self._count = 0

    def place(self, start_ns: int, end_ns: int) -> int:
        """Return the first lane, from 0, that is free for what comes next in order of starts."""
        while self._busy and self._busy[0][0] <= start_ns:
            heappush(self._free, heappop(self._busy)[1])
        if self._free:
            lane = heappop(self._free)
        else:
            lane = self._count
            self._count += 1
        heappush(self._busy, (end_ns, lane))
        return lane


class Lanes:
    """Lanes on which slices nest, and the ends of what is open on them.

    Args:
        is_flat: no slice is put inside of another one, unless it is said to be a part of it.
    """

    __slots__ = ("_flat", "_last", "_last_end_ns", "_nesting_count", "_stacks")

    def __init__(self, *, is_flat: bool = False) -> None:
        self._nesting_count = 0 if is_flat else NESTING_LANES
        self._stacks: list[list[int]] = []
        self._flat = FlatLanes()
        self._last, self._last_end_ns = 0, _NEVER

    def place(
        self, start_ns: int, end_ns: int, ended: list[tuple[int, int]], *, is_inner: bool = False
    ) -> int:
        """Return the number of the lane of the next slice, from 0.

        Slices come in the order of their starts, of equal ones the longer first; parts of a slice
        behind it.

        Args:
            start_ns: start, ns.
            end_ns: end, ns.
            ended: gets lane and end, ns, of what is over when the slice begins, the innermost
                first: on each lane it has to be told before the slice.
            is_inner: it is a part of the last slice that was not: it goes to the lane of that,
                unless it ends later.
        """
        if (
            is_inner
            and end_ns <= self._last_end_ns
            and self._fits(self._last, start_ns, end_ns, ended)
        ):
            return self._last
        for lane in range(min(self._nesting_count, len(self._stacks))):
            if self._fits(lane, start_ns, end_ns, ended):
                return lane
        lane = len(self._stacks)
        if lane >= self._nesting_count:
            lane = self._nesting_count + self._flat.place(start_ns, end_ns)
        if lane == len(self._stacks):
            self._stacks.append([])
        self._last, self._last_end_ns = lane, end_ns
        # On a flat lane all is over: that is why it is free.
        self._fits(lane, start_ns, end_ns, ended)
        return lane

    def _fits(self, lane: int, start_ns: int, end_ns: int, ended: list[tuple[int, int]]) -> bool:
        """End what is over on a lane; put a slice there if it does not cross another one."""
        stack = self._stacks[lane]
        while stack and stack[-1] <= start_ns:
            ended.append((lane, stack.pop()))
        if stack and stack[-1] < end_ns:
            return False
        stack.append(end_ns)
        return True

    def close(self) -> list[tuple[int, int]]:
        """Return lane and end, ns, of all that is open, the innermost first, and close it."""
        return [(lane, stack.pop()) for lane, stack in enumerate(self._stacks) for _ in [*stack]]
