"""Splits a file with the events of several ranks into one trace per rank.

SGLang's ProfileMerger writes the traces of all ranks into one file and puts the rank in front of
each process id: ``[TP00-DP00-PP00-EP00] 83``. Other scripts write ``rank0: 83`` or ``[rank 0] 83``.
Ranks share device, stream, correlation, and op ids, so each rank needs its own trace.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tracekit.event_description import KINDS
from tracekit.sql_text import quote, rows

if TYPE_CHECKING:
    import duckdb

_PREFIX = r"^(\[(?:[A-Z]+[0-9]+-)*[A-Z]+[0-9]+\]|\[?[Rr]ank[ _]?[0-9]+\]?)[ :_]+(.+)$"
_PART = re.compile(r"([A-Za-z]+)[ _]?([0-9]{1,9})")

_COUNTED = ", ".join(
    f"{'complete' if kind.name == 'event' else kind.name}_count = "
    f"(SELECT count(*) FROM record WHERE trace_id = $trace AND view_name = {quote(kind.name)})"
    for kind in KINDS
)
_WINDOW = """
first_ts_ns = (SELECT min(ts_ns) FROM event WHERE trace_id = $trace),
last_end_ns = (SELECT max(ts_ns + dur_ns) FROM event WHERE trace_id = $trace),
event_count = (SELECT count(*) FROM record WHERE trace_id = $trace)
"""


def split_ranks(connection: duckdb.DuckDBPyConnection) -> None:
    """Create one trace per rank of a file; the first rank keeps the trace id.

    Events without a rank in their process id, and faults of the file, are assigned to the trace of
    the first rank.
    """
    connection.execute(
        f"""
        SELECT DISTINCT
            trace_id, regexp_extract(extra ->> '$.pid', {quote(_PREFIX)}, 1) AS rank_prefix
        FROM record
        WHERE pid < 0 AND regexp_matches(extra ->> '$.pid', {quote(_PREFIX)})
        ORDER BY ALL
        """
    )
    prefixes: dict[int, list[str]] = {}
    for trace_id, prefix in connection.fetchall():
        prefixes.setdefault(trace_id, []).append(prefix)
    for trace_id, names in prefixes.items():
        _split(connection, trace_id, names)


def ranks_of(names: list[str]) -> list[int]:
    """Return the rank of each prefix, from the sizes of the parallel groups.

    A number after "rank" is the rank. Otherwise, pipeline and tensor positions determine it. If
    they are not unique, as with data-parallel replicas, ranks follow the sorted order of the
    prefixes.
    """
    places = [{key.upper(): int(number) for key, number in _PART.findall(name)} for name in names]
    tensor = max(place.get("TP", 0) for place in places) + 1
    ranks = [
        place.get("RANK", place.get("PP", 0) * tensor + place.get("TP", 0)) for place in places
    ]
    if len({*ranks}) == len(names):
        return ranks
    in_order = sorted(
        range(len(names)), key=lambda i: [places[i].get(key, 0) for key in ("DP", "PP", "TP", "EP")]
    )
    return [in_order.index(number) for number in range(len(names))]


def _split(connection: duckdb.DuckDBPyConnection, trace_id: int, names: list[str]) -> None:
    row = connection.execute("SELECT max(trace_id) FROM trace").fetchone()
    first_new = (row[0] if row else trace_id) + 1
    numbers = [trace_id, *range(first_new, first_new + len(names) - 1)]
    given = rows(list(zip(names, numbers, strict=True)))
    # A non-numeric process id keeps the negative number assigned to it, which is unique across
    # ranks.
    connection.execute(
        f"""
        UPDATE record
        SET trace_id = given.number,
            pid = coalesce(
                try_cast(regexp_extract(extra ->> '$.pid', {quote(_PREFIX)}, 2) AS BIGINT), pid
            )
        FROM (VALUES {given}) AS given (prefix, number)
        WHERE record.trace_id = {trace_id}
            AND regexp_extract(extra ->> '$.pid', {quote(_PREFIX)}, 1) = given.prefix
        """
    )
    for number, rank in zip(numbers, ranks_of(names), strict=True):
        if number != trace_id:
            for table in ("device", "process_group"):
                connection.execute(
                    f"INSERT INTO {table} SELECT * REPLACE ({number} AS trace_id) FROM {table} "
                    f"WHERE trace_id = {trace_id}"
                )
            connection.execute(
                f"INSERT INTO trace SELECT * REPLACE ({number} AS trace_id, 0 AS rejected_count, "
                "0 AS repaired_count, 0 AS unpaired_count, 0 AS file_bytes, 0 AS text_bytes) "
                f"FROM trace WHERE trace_id = {trace_id}"
            )
        connection.execute(
            f"UPDATE trace SET rank = {rank}, rank_source = 'process ids' WHERE trace_id = {number}"
        )
    for number in numbers:
        connection.execute(
            f"UPDATE trace SET {_COUNTED}, {_WINDOW} WHERE trace_id = $trace".replace(
                "$trace", str(number)
            )
        )
