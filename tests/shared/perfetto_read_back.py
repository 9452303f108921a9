"""Compares Perfetto's view of an export with the store."""

from perfetto_engine import Engine

from tracekit.export.perfetto import export_perfetto
from tracekit.export.selection import Selection, scope_of
from tracekit.export.staging import staged

_EVENTS = """
    SELECT extract_arg(s.arg_set_id, 'debug.event_id') AS event_id, s.ts AS ts, s.dur AS dur,
        s.name AS name, s.category AS category
    FROM slice AS s JOIN track AS t ON s.track_id = t.id
    WHERE t.name <> 'collectives' AND extract_arg(s.arg_set_id, 'debug.event_id') IS NOT NULL
"""


def exported(trace, path, **selection):
    """Write a trace for Perfetto."""
    with path.open("wb") as file:
        export_perfetto(trace, file.write, Selection(**selection))
    return path


def check_read_back(trace, path):
    """Compare every event, time, and arrow of a trace with the engine's view of its export."""
    ((shift_ns,),) = trace.sql(
        "SELECT if(first_ts_ns + base_time_ns < 0, -first_ts_ns, base_time_ns) FROM trace"
    ).rows
    with Engine(exported(trace, path)) as engine:
        assert engine.problems() == {}
        stored = trace.sql(
            f"SELECT event_id, ts_ns + {shift_ns}, dur_ns, name, category FROM event UNION ALL "
            f"SELECT event_id, ts_ns + {shift_ns}, 0, name, category FROM instant ORDER BY 1"
        ).rows
        found = engine.rows(_EVENTS + " ORDER BY 1")
        assert [row[:3] for row in found] == [row[:3] for row in stored]
        # The engine also uses this for missing names and categories. A NUL would end a text there.
        assert [(name or "", category) for *_, name, category in found] == [
            (shown(name or ""), shown(category)) for *_, name, category in stored
        ]
        stored_arrows = trace.sql(
            "SELECT DISTINCT least(from_id, to_id), greatest(from_id, to_id) "
            "FROM event_arrows('record', 'attribution', 'launch_context') ORDER BY ALL"
        ).rows
        found_arrows = engine.rows(
            f"""
            WITH e AS ({_EVENTS.replace("AS event_id,", "AS event_id, s.id AS slice_id,")})
            SELECT min(a.event_id, b.event_id) AS one, max(a.event_id, b.event_id) AS other
            FROM flow AS f JOIN e AS a ON f.slice_out = a.slice_id
            JOIN e AS b ON f.slice_in = b.slice_id ORDER BY 1, 2
            """
        )
        assert found_arrows == stored_arrows
        _check_attribution(trace, engine)
        _check_counters(trace, engine, shift_ns)
        _check_collectives(trace, engine, shift_ns)


def shown(text):
    """Return a text as in an export."""
    return None if text is None else text.replace("\0", "\u2400")


def _check_attribution(trace, engine):
    """Compare our tracks with our analyses."""

    def lengths(track):
        return dict(
            engine.rows(
                "SELECT s.name AS name, sum(s.dur) AS total FROM slice AS s JOIN track AS t "
                f"ON s.track_id = t.id WHERE t.name = '{track}' GROUP BY 1"
            )
        )

    def summed(analysis, name, columns, **params):
        total = {}
        for row in trace.query(analysis, **params).to_dicts():
            total[row[name]] = total.get(row[name], 0) + sum(row[column] for column in columns)
        return {key: value for key, value in total.items() if value}

    timeline = trace.query("timeline").to_dicts()
    kinds = ("compute", "exposed_comm", "exposed_memcpy", "idle")
    expected = {
        kind.replace("_", " "): sum(row[f"{kind}_ns"] for row in timeline) for kind in kinds
    }
    assert lengths("timeline") == {kind: value for kind, value in expected.items() if value}
    assert lengths("phases") == summed("phases", "phase", ("wall_ns", "idle_ns"))
    assert lengths("idle causes") == summed("idle_causes", "cause", ("idle_ns",))
    modules = engine.rows(
        "SELECT extract_arg(s.arg_set_id, 'debug.tracekit.module') AS module, "
        "sum(extract_arg(s.arg_set_id, 'debug.tracekit.wall_ns')) AS total FROM slice AS s "
        "JOIN track AS t ON s.track_id = t.id WHERE t.name = 'modules' GROUP BY 1"
    )
    assert dict(modules) == summed("modules", "module_path", ("total_wall_ns",))


def _check_counters(trace, engine, shift_ns):
    """Compare every value of every counter, and the last value of cumulative counters."""
    # As text, because the protobuf package cannot parse long replies with doubles.
    rows = engine.rows(
        "SELECT t.name AS name, c.ts AS ts, printf('%!.17g', c.value) AS value FROM counter AS c "
        "JOIN track AS t ON c.track_id = t.id"
    )
    found = sorted((name, ts, float(value)) for name, ts, value in rows)
    with staged(trace, scope_of(trace, Selection())):
        stored = trace.sql(
            f"SELECT name, at_ns + {shift_ns}, value "
            "FROM counter_values('export_wall', 'export_fact', 'export_queue') "
            "WHERE isfinite(value)"
        ).rows
    assert found == sorted((shown(name), at_ns, value) for name, at_ns, value in stored)
    last = {}
    for name, _, value in found:
        last[name] = max(last.get(name, value), value)
    timeline = trace.query("timeline").to_dicts()
    if len(timeline) == 1:
        exposed_ns = timeline[0]["exposed_comm_ns"]
        assert last.get("exposed communication", 0) == exposed_ns
    longest = {}
    for row in trace.query("queue_length").to_dicts():
        name = f"queue length of stream {row['stream']}"
        longest[name] = max(longest.get(name, 0), row["max_length"] or 0)
    assert {n: v for n, v in last.items() if n.startswith("queue length")} == {
        name: length for name, length in longest.items() if length
    }


def _check_collectives(trace, engine, shift_ns):
    """Compare each collective with the events of its analysis, and its parts with the total."""
    found = engine.rows(
        "SELECT extract_arg(s.arg_set_id, 'debug.event_id') AS event_id, s.ts AS ts, s.dur AS dur, "
        "s.name AS name, extract_arg(s.arg_set_id, 'debug.tracekit.exposed_ns') AS exposed_ns "
        "FROM slice AS s JOIN track AS t ON s.track_id = t.id "
        "WHERE t.name = 'collectives' AND s.name NOT IN ('wait', 'transfer') ORDER BY 1"
    )
    stored = trace.sql(
        f"SELECT event_id, ts_ns + {shift_ns}, dur_ns, replace(class, 'comm_', ''), wall_ns "
        "FROM collective_events WHERE is_transfer AND piece = 0 ORDER BY 1"
    ).rows
    assert found == stored
