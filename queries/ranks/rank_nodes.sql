-- Machine of each rank.
-- The machine is the host name in the trace, or else in the file name (as torch.profiler writes it). Otherwise, it is
-- derived from device numbers: consecutive ranks whose devices are numbered from 0 share a machine.
--
-- Kind:     function
-- Columns:
--   trace_id INTEGER, rank INTEGER, node VARCHAR
--   node_source  VARCHAR  host name, file name, or layout

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
            -- File names with "rank" or "worker" come from the program and contain no host name.
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
            -- If each process sees one device, every device number is 0 and shows no layout.
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
