"""Deeply nested traces."""

from traces_by_hand import Event, call, kernel, span


def nested_ranges(count: int) -> list[list[Event]]:
    """Return one rank with ranges within ranges, and one kernel launched at each depth."""
    events = []
    for depth in range(count):
        start = depth * 10
        events.append(span("user_annotation", f"range {depth}", start, 20 * count - start))
        events += [call(start + 1, start + 3, depth + 1)]
        events += [kernel("k", start + 4, start + 8, depth + 1)]
    return [events]
