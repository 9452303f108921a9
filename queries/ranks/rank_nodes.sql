-- Which machine did each rank run on?
-- The host that the trace names, else the one that its file is named after, as torch.profiler's handler does. Where no
-- trace tells, ranks whose devices are numbered on from 0 are taken for one machine.
--
-- Kind:     function
-- Columns:
--   trace_id     INTEGER  the trace
--   rank         INTEGER  global rank
--   node         VARCHAR  name of the machine; NULL where nothing tells
--   node_source  VARCHAR  host name, file name or layout

CREATE OR REPLACE MACRO rank_nodes() AS TABLE (
    WITH numbered AS (
        SELECT trace_id, try_cast(min(device) AS INTEGER) AS device_number
        FROM device_windows
        GROUP BY trace_id
        HAVING count(*) = 1
    ),

    placed AS (
        SELECT
            t.trace_id, t.rank, t.host_name,
            -- A worker's name that a program chose is none of a host.
            if(
                regexp_matches(t.file_name, '(?i)(rank|worker)[_\-.=]?\d'), NULL,
                nullif(
                    regexp_extract(t.file_name, '^(.+)_\d+\.\d+\.pt\.trace\.json(\.gz)?$', 1), ''
                )
            ) AS file_host,
            w.device_number
        FROM trace AS t
        LEFT JOIN numbered AS w USING (trace_id)
    ),

    known AS (
        SELECT
            *,
            -- A job whose processes each see one device alone has 0 everywhere.
            max(device_number) OVER () > 0 AND bool_and(device_number <= rank) OVER ()
                AS has_layout
        FROM placed
    )

    SELECT
        trace_id, rank,
        coalesce(
            host_name, file_host,
            if(has_layout, format('ranks from {}', rank - device_number), NULL)
        ) AS node,
        CASE
            WHEN host_name IS NOT NULL THEN 'host name'
            WHEN file_host IS NOT NULL THEN 'file name'
            WHEN has_layout AND rank IS NOT NULL THEN 'layout'
        END AS node_source
    FROM known
);
