"""Completes events of JAX's `trace.json.gz` to match its XSpace, and adds scopes of launches.

JAX writes one profile twice: as an XSpace, and as a Chrome trace for viewers, in which planes are
processes and lines are threads (xla/tsl/profiler/convert/xplane_to_trace_events.cc). The events of
the Chrome trace have no category, and their arguments are strings. As in
:mod:`tracekit.ingest.formats.xspace_trace`, an event on a GPU stream becomes a kernel, copy, or
memset with device, stream, and correlation. A call with a correlation becomes a launch, and an
annotation with `step_num` becomes a step.

In both files, the arguments of a kernel may contain its XLA op and the enclosing scopes
(``jit(step)/transpose(jvp(layer))/dot_general:``). The launch of such a kernel gets a range of that
name, from which rules derive module and phase. Kernels of a command buffer (a CUDA graph) have no
op name. If the XSpace contains the XLA program and a replay matches its schedule, each kernel gets
the scope, phase, and primitive of its op, like kernels annotated by torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

_LANE = r"""
CREATE OR REPLACE TABLE scratch.xprof_lane AS
WITH named AS (
    SELECT trace_id, pid, tid, name AS kind, args ->> '$.name' AS name
    FROM record
    WHERE name IN ('process_name', 'thread_name') AND ph = 'M'
)

SELECT
    p.trace_id, p.pid, t.tid,
    try_cast(regexp_extract(p.name, '^/device:GPU:(\d+)', 1) AS BIGINT) AS device,
    try_cast(regexp_extract(t.name, '^Stream #(\d+)\b', 1) AS BIGINT) AS stream
FROM named AS p
LEFT JOIN named AS t ON t.kind = 'thread_name' AND p.trace_id = t.trace_id AND p.pid = t.pid
WHERE
    p.kind = 'process_name'
    AND regexp_matches(p.name, '^/(?:device:GPU:\d+|host:CPU)')
    AND p.trace_id IN (
        SELECT n.trace_id
        FROM named AS n
        INNER JOIN named AS s USING (trace_id, pid)
        WHERE regexp_matches(n.name, '^/device:GPU:\d+') AND regexp_matches(s.name, '^Stream #\d+')
    )
"""

_DEVICE = r"""
UPDATE record
SET device = lane.device,
    stream = lane.stream,
    correlation = try_cast(args ->> '$.correlation_id' AS BIGINT),
    category = CASE
        WHEN lane.stream IS NULL THEN 'gpu_user_annotation'
        WHEN contains(args, '"memcpy_details"') OR regexp_matches(name, '^(?:Memcpy|Copy) ?[HDP]')
            THEN 'gpu_memcpy'
        WHEN regexp_matches(args, '(?i)"memset_details"') THEN 'gpu_memset'
        WHEN regexp_matches(args, '"(?:memalloc|memfree|memory_residency)_details"') THEN 'overhead'
        ELSE 'kernel'
    END,
    args = json_merge_patch(args, json_object(
        'grid', CASE WHEN contains(args, 'grid:') THEN _SIZES('grid') END,
        'block', CASE WHEN contains(args, 'block:') THEN _SIZES('block') END,
        'bytes', try_cast(
            nullif(regexp_extract(args ->> '$.memcpy_details', '\bsize:([1-9]\d{0,17})\b', 1), '')
            AS BIGINT
        )
    ))
FROM scratch.xprof_lane AS lane
WHERE
    record.trace_id = lane.trace_id
    AND record.pid = lane.pid
    AND record.tid = lane.tid
    AND lane.device IS NOT NULL
    AND record.ph = 'X'
    AND record.category IS NULL
"""

_HOST = r"""
UPDATE record
SET correlation = try_cast(args ->> '$.correlation_id' AS BIGINT),
    category = CASE
        WHEN contains(args, '"correlation_id"') THEN 'cuda_runtime'
        WHEN contains(args, '"step_num"') THEN 'user_annotation'
        WHEN regexp_matches(name, '^\$.+?:\d+ .') THEN 'python_function'
        WHEN contains(args, '"hlo_op"') THEN 'cpu_op'
        WHEN NOT contains(name, '::') AND NOT starts_with(name, 'end: ') THEN 'user_annotation'
    END,
    name = CASE
        WHEN contains(args, '"correlation_id"') THEN name
        WHEN contains(args, '"step_num"') THEN 'ProfilerStep#' || (args ->> '$.step_num')
        WHEN regexp_matches(name, '^\$.+?:\d+ .')
            THEN regexp_replace(name, '^\$(.+?):(\d+) (.+)$', '\1(\2): \3', 's')
        WHEN contains(args, '"hlo_op"') THEN 'xla::' || name
        ELSE name
    END
FROM scratch.xprof_lane AS lane
WHERE
    record.trace_id = lane.trace_id
    AND record.pid = lane.pid
    AND record.tid = lane.tid
    AND lane.device IS NULL
    AND record.ph = 'X'
    AND record.category IS NULL
"""

_PATHS = r"""
INSERT INTO record BY NAME
WITH path AS (
    SELECT trace_id, correlation, any_value(_PATH) AS name
    FROM record
    WHERE category = 'kernel' AND trace_id IN (SELECT trace_id FROM scratch.xprof_lane)
    GROUP BY trace_id, correlation
    HAVING count(*) = 1
),

named AS (
    SELECT l.*, coalesce(_PATH, p.name) AS path
    FROM record AS l
    LEFT JOIN path AS p USING (trace_id, correlation)
    WHERE l.category = 'cuda_runtime' AND trace_id IN (SELECT trace_id FROM scratch.xprof_lane)
)

SELECT
    n.trace_id,
    (SELECT max(event_id) FROM record AS r WHERE r.trace_id = n.trace_id)
    + row_number() OVER (PARTITION BY n.trace_id ORDER BY n.event_id) AS event_id,
    n.view_name, n.ph, n.pid, n.tid,
    'user_annotation' AS category,
    n.path AS name,
    n.ts_ns, n.dur_ns
FROM named AS n
ANTI JOIN record AS r
    ON
        n.trace_id = r.trace_id
        AND n.tid = r.tid
        AND n.ts_ns = r.ts_ns
        AND n.path = r.name
WHERE n.path IS NOT NULL
"""

_PATH = (
    "coalesce(if(contains(args ->> '$.name', '/'), args ->> '$.name', NULL), "
    "nullif(regexp_extract(args ->> '$.tf_op', '^(.*/.*):', 1), ''))"
)

_SCHEDULED = r"""
UPDATE record
SET args = json_merge_patch(record.args, json_object(
    'module_fqn', nullif(named.scope, ''),
    'name', regexp_extract(named.path, '[^/]*$'),
    'autograd_phase', CASE
        WHEN contains(named.path, 'rematted_computation') THEN 'recompute'
        WHEN contains(named.path, 'transpose(jvp(') THEN 'backward'
        WHEN contains(named.path, 'jvp(') THEN 'forward'
    END
))
FROM (
    WITH op AS (
        SELECT
            trace_id,
            regexp_extract(args ->> '$.program', '\((\d+)\)$', 1) AS program,
            json_array_length(args -> '$.ops') AS op_count,
            unnest(from_json(args -> '$.ops', '[["VARCHAR"]]')) AS op,
            generate_subscripts(from_json(args -> '$.ops', '[["VARCHAR"]]'), 1) AS place
        FROM record
        WHERE name = 'hlo_program' AND ph = 'M'
    ),

    -- The kernel of a fusion has its name, with underscores; one that is alike runs it, too.
    fusion AS (
        SELECT
            trace_id, program,
            regexp_replace(op[1], '\W', '_', 'g') AS name,
            min(place) AS first_place
        FROM op
        WHERE op[2] = 'fusion'
        GROUP BY ALL
    ),

    ran AS (
        SELECT
            trace_id, event_id, correlation, name,
            args ->> '$.program_id' AS program,
            row_number() OVER (PARTITION BY trace_id, correlation ORDER BY ts_ns, event_id)
                AS place
        FROM record
        WHERE category = 'kernel' AND contains(args, '"program_id"')
    ),

    paired AS (
        SELECT r.trace_id, r.event_id, r.correlation, r.place, o.op, o.op_count, f.first_place
        FROM ran AS r
        LEFT JOIN op AS o USING (trace_id, program, place)
        LEFT JOIN fusion AS f USING (trace_id, program, name)
    )

    SELECT
        trace_id, event_id,
        op[3] AS path,
        regexp_replace(
            regexp_replace(
                regexp_replace(op[3], '^(?:(?:jit|pmap)\([^/()]*\)/)+', ''),
                '^(?:(?:transpose\()?jvp\(([^()]*)\)\)?|(?:.*/)?rematted_computation/)', '\1'
            ), '(?:^|/)[^/]*$', ''
        ) AS scope
    FROM paired
    WINDOW replay AS (PARTITION BY trace_id, correlation)
    QUALIFY
        count(*) OVER replay = op_count
        AND bool_and(
            coalesce(if(op[2] = 'fusion', first_place <= place, first_place IS NULL), FALSE)
        ) OVER replay
        AND op[3] <> ''
) AS named
WHERE record.trace_id = named.trace_id AND record.event_id = named.event_id
"""

_SIZES = (
    "CAST(regexp_extract_all(regexp_extract(args ->> '$.kernel_details', '\\bSIDE:([\\d,]+)'), "
    "'\\d+') AS BIGINT[])"
)

_COUNTS = """
UPDATE trace
SET event_count = (SELECT count(*) FROM record AS r WHERE r.trace_id = trace.trace_id),
    complete_count = (
        SELECT count(*) FROM record AS r
        WHERE r.trace_id = trace.trace_id AND r.view_name = 'event'
    )
WHERE trace_id IN (SELECT trace_id FROM scratch.xprof_lane)
"""


def name_xprof_events(connection: duckdb.DuckDBPyConnection) -> None:
    """Set categories, devices, streams, correlations, and scopes of JAX events on a GPU.

    Traces without GPU streams are unchanged, as are values that come from an XSpace.
    """
    if connection.execute(_LANE).fetchall() != [(0,)]:
        device = _DEVICE
        for side in ("grid", "block"):
            device = device.replace(f"_SIZES('{side}')", _SIZES.replace("SIDE", side))
        paths = _PATHS.replace("_PATH", _PATH)
        for statement in (device, _HOST, paths, _SCHEDULED, _COUNTS):
            connection.execute(statement)
