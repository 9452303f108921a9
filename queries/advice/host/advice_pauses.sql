-- Host stalls that recur in more than half of the steps.
-- A stall (`host_pauses`) is a time of at least 2 ms without recorded activity on the host. A stall recurs if the same
-- op follows stalls in other steps.
--
-- Kind:     advice
-- Scope:    run

WITH pauses AS (
    SELECT
        trace_id,
        sum(end_ns - start_ns)::BIGINT AS pause_ns,
        count(*) AS pause_count
    FROM host_pauses
    WHERE is_repeated
    GROUP BY trace_id
),

-- The op with the most stall time before it. If stalls are equally long, report the first.
places AS (
    SELECT
        trace_id, place, step_count,
        sum(end_ns - start_ns) AS ns,
        max(end_ns - start_ns) AS longest_ns,
        arg_max(into_ns, end_ns - start_ns) AS into_ns,
        count(*) AS place_count
    FROM host_pauses
    WHERE is_repeated
    GROUP BY trace_id, place, step_count
    QUALIFY row_number() OVER (PARTITION BY trace_id ORDER BY ns DESC, place) = 1
),

steps AS (
    SELECT trace_id, count(DISTINCT step) AS step_count
    FROM step_ranges
    GROUP BY trace_id
),

worst AS (
    SELECT u.pause_ns, u.pause_count, l.*, s.step_count AS of_count, t.rank
    FROM pauses AS u
    INNER JOIN places AS l USING (trace_id)
    INNER JOIN trace AS t USING (trace_id)
    LEFT JOIN steps AS s USING (trace_id)
    ORDER BY u.pause_ns DESC, u.trace_id
    LIMIT 1
)

SELECT
    format(
        'No host thread has an event for up to {} before {}{}, {}{}', in_ms(longest_ns),
        coalesce(place, 'the next step'),
        if(into_ns IS NULL, '', format(' ({} after the start of a step)', in_ms(into_ns))),
        if(
            of_count IS NULL,
            format('{} times', place_count),
            format('in {} of {} steps', step_count, of_count)
        ),
        if(
            pause_count > place_count,
            format('. All {} such stalls take {}', pause_count, in_ms(pause_ns)), ''
        )
    ) AS what,
    at_rank(rank, 'host stall') AS place,
    'pauses' || rank_term(rank) || ' remove' AS change,
    pause_ns AS cost_ns,
    'Remove the sleep, I/O, or computation there, or move it to another thread or process. '
    || 'Record with with_stack=True to see the Python lines.' AS remedy,
    'tracekit sql TRACE "FROM host_pauses"' AS evidence
FROM worst
