-- Life of the slowest requests: queueing, prefill, decode, and answering.
-- queued: from the sending of the request to its first step. prefill, decode: engine steps before and after the first
-- token. between steps: no step served the request. answering: from the last step to the end. not traced: time with
-- unrecorded steps. Requests without any recorded step have only the parts `waiting` (until the first token) and
-- `answering`, and come last. A step serves all requests of its batch. Warm-up requests are excluded.
--
-- Kind:     analysis
-- Scope:    run
-- Params:
--   limit    BIGINT = 12    number of requests per run; 0 for all
--   request  BIGINT = NULL  only this request
-- Columns:
--   run VARCHAR, request_id BIGINT
--   part      VARCHAR  queued, prefill, decode, between steps, not traced, waiting, or answering
--   step      BIGINT   engine step; NULL for other parts
--   start_ns  BIGINT   start, ns since the start of the load
--   end_ns    BIGINT   end, ns since the start of the load
--   dur_ns BIGINT, request_count BIGINT, prefill_token_count BIGINT, decode_token_count BIGINT
--   e2e_ns BIGINT
--   outcome   VARCHAR  outcome of the request
-- Invariant: dur_ns = end_ns - start_ns AND dur_ns >= 0
-- Invariant: (step IS NOT NULL) = (part IN ('prefill', 'decode'))

WITH served AS (
    SELECT
        r.run_id, n.folder_name, n.load_start_unix_ns, r.request_id, r.outcome, r.sent_ns,
        r.first_token_ns, r.end_ns
    FROM request AS r
    INNER JOIN run AS n USING (run_id)
    WHERE
        NOT r.is_warmup
        AND r.end_ns >= r.sent_ns
        AND ($request IS NULL OR r.request_id = $request)
),

-- All ranks of an engine run the same steps, so use the first trace with steps.
reference_trace AS (
    SELECT t.run_id, min(t.trace_id) AS trace_id
    FROM trace AS t
    INNER JOIN serving_step_ranges AS s USING (trace_id)
    WHERE s.source = 'tk' AND t.base_time_ns > 0
    GROUP BY t.run_id
),

span AS (
    SELECT
        run_id, request_id, first_step, last_step,
        min(first_step) OVER requests AS very_first_step,
        max(last_step) OVER requests AS very_last_step
    FROM request_step
    WINDOW requests AS (PARTITION BY run_id, request_id)
),

stepped AS (
    SELECT
        r.run_id, r.request_id, s.step,
        s.step = p.very_first_step AS is_first,
        s.step = p.very_last_step AS is_last,
        s.step = p.first_step AS begins_span,
        s.step = p.last_step AS ends_span,
        row_number() OVER (PARTITION BY r.run_id, r.request_id ORDER BY s.step) AS place,
        s.ts_ns + t.base_time_ns - r.load_start_unix_ns AS start_ns,
        s.end_ns + t.base_time_ns - r.load_start_unix_ns AS end_ns,
        s.request_count, s.prefill_token_count, s.decode_token_count
    FROM served AS r
    INNER JOIN span AS p USING (run_id, request_id)
    INNER JOIN reference_trace AS g USING (run_id)
    INNER JOIN trace AS t USING (trace_id)
    INNER JOIN serving_step_ranges AS s
        ON g.trace_id = s.trace_id AND s.step BETWEEN p.first_step AND p.last_step
),

traced AS (
    SELECT
        run_id, request_id,
        min(start_ns) AS first_ns,
        max(end_ns) AS last_ns,
        bool_or(is_first) AS has_first,
        bool_or(is_last) AS has_last
    FROM stepped
    GROUP BY run_id, request_id
),

chosen AS (
    SELECT r.*, d.run_id IS NOT NULL AS is_traced, d.first_ns, d.last_ns, d.has_first, d.has_last
    FROM served AS r
    LEFT JOIN traced AS d USING (run_id, request_id)
    QUALIFY
        $limit = 0
        OR row_number() OVER (
            PARTITION BY r.run_id
            ORDER BY is_traced DESC, r.end_ns - r.sent_ns DESC, r.request_id
        ) <= $limit
),

section AS (
    SELECT
        run_id, request_id, CASE
            WHEN NOT is_traced THEN 'waiting'
            WHEN has_first THEN 'queued'
            ELSE 'not traced'
        END AS part, sent_ns AS start_ns,
        if(is_traced, first_ns, coalesce(first_token_ns, end_ns)) AS end_ns
    FROM chosen
    UNION ALL BY NAME
    SELECT
        run_id, request_id,
        if(has_last IS FALSE, 'not traced', 'answering') AS part,
        if(is_traced, last_ns, first_token_ns) AS start_ns,
        end_ns
    FROM chosen
    UNION ALL BY NAME
    SELECT
        s.run_id, s.request_id,
        if(coalesce(s.start_ns < c.first_token_ns, s.is_first), 'prefill', 'decode') AS part,
        s.step, s.start_ns, s.end_ns, s.request_count, s.prefill_token_count, s.decode_token_count
    FROM stepped AS s
    INNER JOIN chosen AS c USING (run_id, request_id)
    UNION ALL BY NAME
    SELECT
        s.run_id, s.request_id,
        if(
            n.step = s.step + 1 OR (s.ends_span AND n.begins_span), 'between steps', 'not traced'
        ) AS part,
        s.end_ns AS start_ns, n.start_ns AS end_ns
    FROM stepped AS s
    INNER JOIN stepped AS n
        ON s.run_id = n.run_id AND s.request_id = n.request_id AND s.place + 1 = n.place
    SEMI JOIN chosen AS c ON s.run_id = c.run_id AND s.request_id = c.request_id
)

SELECT
    c.folder_name AS run, s.request_id, s.part, s.step, s.start_ns, s.end_ns,
    s.end_ns - s.start_ns AS dur_ns,
    s.request_count, s.prefill_token_count, s.decode_token_count,
    c.end_ns - c.sent_ns AS e2e_ns,
    c.outcome
FROM section AS s
INNER JOIN chosen AS c USING (run_id, request_id)
WHERE s.end_ns > s.start_ns OR (s.step IS NOT NULL AND s.end_ns = s.start_ns)
ORDER BY c.run_id, c.is_traced DESC, e2e_ns DESC, s.request_id, s.start_ns, s.step
