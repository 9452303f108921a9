-- Counter values over time: counter_values('walls', 'facts', 'queues').
-- Counters: queue length per stream; cumulative exposed communication (ns); FLOP/s and bytes/s of the current op or
-- copy; allocated and reserved memory; tokens and requests in the batch; and sampled counters by name. An unknown rate
-- is 0, because a counter always has a value. Between steps, tokens and requests are 0.
--
-- Kind:     function
-- Params:
--   walls   VARCHAR  relation with the rows of wall_intervals('work')
--   facts   VARCHAR  relation with the rows of event_facts('work', 'rates')
--   queues  VARCHAR  relation with the rows of queued_events()
-- Columns:
--   trace_id  INTEGER
--   device  VARCHAR  device number, or cpu; NULL if the counter has no device
--   name    VARCHAR  counter
--   unit    VARCHAR  count, ns, bytes, FLOP/s, or bytes/s; empty if unknown
--   at_ns   BIGINT   time from which the value applies, ns
--   place   BIGINT   order of values with the same time; the last value applies
--   value   DOUBLE   value

CREATE OR REPLACE MACRO counter_values(walls, facts, queues) AS TABLE (
    WITH waiting AS (
        SELECT *
        FROM query_table(queues)
    ),

    exposed AS (
        SELECT
            trace_id, device, start_ns, end_ns,
            sum(end_ns - start_ns) OVER (
                PARTITION BY trace_id, device ORDER BY start_ns ROWS UNBOUNDED PRECEDING
            ) AS sum_ns
        FROM timeline_intervals(walls)
        WHERE kind = 'exposed_comm'
    ),

    rate AS (
        SELECT
            w.trace_id, w.device, w.start_ns,
            unnest(['FLOP/s', 'bytes/s']) AS unit,
            unnest(
                [
                    if(w.kind = 'compute', coalesce(f.facts.op_flop_per_s, 0), 0),
                    coalesce(
                        CASE w.kind
                            WHEN 'compute'
                                THEN 1e9 * f.facts.op_bytes / nullif(f.facts.op_kernel_ns, 0)
                            WHEN 'memcpy' THEN 1e9 * f.facts.copied_bytes / nullif(f.dur_ns, 0)
                        END,
                        0
                    )
                ]
            ) AS value
        FROM query_table(walls) AS w
        LEFT JOIN query_table(facts) AS f USING (trace_id, event_id)
        WHERE w.device <> 'cpu'
        UNION ALL
        SELECT
            trace_id, device, end_ns AS start_ns, unnest(['FLOP/s', 'bytes/s']) AS unit, 0 AS value
        FROM device_windows
        WHERE device <> 'cpu'
    ),

    -- The batch of a step without batch information is unknown, not empty.
    batch AS (
        SELECT
            trace_id, ts_ns, end_ns,
            unnest(['tokens in the batch', 'requests in the batch']) AS name,
            unnest(
                [
                    if(
                        coalesce(prefill_token_count, decode_token_count) IS NULL,
                        NULL,
                        coalesce(prefill_token_count, 0) + coalesce(decode_token_count, 0)
                    ),
                    request_count
                ]
            )::DOUBLE AS value
        FROM serving_step_ranges
    )

    SELECT
        part.trace_id, part.device,
        'queue length of stream ' || coalesce(part.stream::VARCHAR, 'unknown') AS name,
        'count' AS unit,
        at_ns,
        0 AS place,
        depth::DOUBLE AS value
    FROM interval_depth('waiting')
    WHERE dur_ns > 0 OR depth = 0
    UNION ALL
    SELECT
        trace_id, device,
        'exposed communication' AS name,
        'ns' AS unit,
        unnest([start_ns, end_ns]) AS at_ns,
        unnest([0, 1]) AS place,
        unnest([sum_ns - (end_ns - start_ns), sum_ns])::DOUBLE AS value
    FROM exposed
    UNION ALL
    SELECT
        trace_id, device,
        format('achieved {} (0 if unknown)', unit) AS name,
        unit, start_ns AS at_ns,
        0 AS place,
        value
    FROM rate
    QUALIFY
        max(value) OVER (PARTITION BY trace_id, device, unit) > 0
        AND value IS DISTINCT FROM lag(value) OVER (
            PARTITION BY trace_id, device, unit ORDER BY start_ns
        )
    UNION ALL
    SELECT
        m.trace_id,
        nullif(d.device, 'cpu') AS device,
        unnest(['allocated', 'reserved']) || if(d.device = 'cpu', ' on the host', '') AS name,
        'bytes' AS unit,
        m.ts_ns AS at_ns, m.event_id AS place,
        unnest([
            m.total_allocated_bytes,
            known_reserved(d.device, m.total_allocated_bytes, m.total_reserved_bytes)
        ])::DOUBLE AS value
    FROM memory AS m
    INNER JOIN memory_devices() AS d
        ON
            m.trace_id = d.trace_id
            AND m.device_type IS NOT DISTINCT FROM d.device_type
            AND m.device_id IS NOT DISTINCT FROM d.device_id
    UNION ALL
    SELECT
        trace_id, NULL AS device, name,
        'count' AS unit,
        unnest([ts_ns, end_ns]) AS at_ns,
        unnest([1, 0]) AS place,
        unnest([value, 0]) AS value
    FROM batch
    WHERE value IS NOT NULL
    UNION ALL
    SELECT s.trace_id, s.device, s.name, s.unit, s.at_ns, s.place, s.value
    FROM counter_samples AS s
    INNER JOIN trace AS t USING (trace_id)
    WHERE s.source = 'trace' OR s.at_ns BETWEEN t.first_ts_ns AND t.last_end_ns
);
