"""A writer that stores the calls of an export, to compare exports."""

from unittest.mock import patch

from tracekit.export.packets import Slice
from tracekit.export.perfetto import export_perfetto


class RecordedScene:
    """Stores slices, marks, and values by track."""

    def __init__(self):
        self.groups = [()]
        self.spans = {}
        self.numbers = {}
        self.slice_count = 0

    def group(self, name, parent=0, *_, **__):
        self.groups.append((*self.groups[parent], name))
        return len(self.groups) - 1

    def track(self, name, parent, *_, **__):
        return (*self.groups[parent], name)

    def slices(self, track, rows, skip):
        found = [Slice(*row[skip:]) for row in rows]
        self.spans.setdefault(track, []).extend(found)
        self.slice_count += len(found)
        return len(found)

    instants = slices

    def finish(self, *_):
        """Do nothing, because nothing is open or buffered."""

    close = finish

    def counter(self, name, parent, _, unit):
        return (*self.groups[parent], name, unit)

    def values(self, counter, rows, skip):
        self.numbers[counter] = [tuple(row[skip:]) for row in rows]

    def arrows(self):
        """Return source and target of each arrow; None for a missing end."""
        ends = {}
        for place, slices in self.spans.items():
            for one in slices:
                key = (place[-1], one.event_id, one.start_ns, one.name)
                for number in one.arrows or ():
                    ends.setdefault(abs(number), {})[number > 0] = key
        found = [(end.get(True), end.get(False)) for end in ends.values()]
        return sorted(found, key=repr)


def record(trace, selection=None):
    """Export a trace to a recorded scene."""
    scene = RecordedScene()
    with patch("tracekit.export.perfetto.PacketWriter", lambda _: scene):
        return scene, export_perfetto(trace, len, selection)


def _telling(numbers):
    """Return the counters without empty ones and without unknown rates."""
    return {
        place: values
        for place, values in numbers.items()
        if any(value or not place[-2].startswith("achieved") for _, value in values)
    }


def check_piece(whole, piece, from_ns, to_ns):
    """Compare the export of an interval with the complete export; return slices and values.

    Args:
        whole: the complete export.
        piece: the export of the interval.
        from_ns: start of the interval on the axis, ns.
        to_ns: end of the interval on the axis, ns.
    """

    def facts_of(one):
        return tuple(one._replace(arrows=None))

    spans = {}
    for place, slices in whole.spans.items():
        kept = [
            facts_of(s) for s in slices if s.start_ns < to_ns and s.start_ns + s.dur_ns >= from_ns
        ]
        if kept:
            spans[place] = sorted(kept, key=repr)
    assert {place: sorted(map(facts_of, s), key=repr) for place, s in piece.spans.items()} == spans
    numbers = {
        place: [(at, value) for at, value in values if from_ns <= at < to_ns]
        for place, values in whole.numbers.items()
    }
    assert _telling(piece.numbers) == _telling(numbers)
    arrows = piece.arrows()
    there = {(p[-1], s.event_id, s.start_ns, s.name) for p, x in piece.spans.items() for s in x}
    assert arrows == [arrow for arrow in whole.arrows() if set(arrow) <= there]
    return sum(map(len, spans.values())), sum(map(len, piece.numbers.values()))
