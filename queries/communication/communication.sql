-- Time, overlap, and bandwidth of collectives, per device.
-- Bus bandwidth is bytes / duration, times 2(n-1)/n for all-reduce, (n-1)/n for all-gather, reduce-scatter, and
-- all-to-all, and 1 for the rest. The message is the input; for all-gathers, the output. Bandwidths cover collectives
-- of known size. On cpu, the time of both the c10d op and the backend's span counts, but only the span counts as a call
-- with bytes. The measured peak is the best rate of `tracekit bench` for the same collective, backend, and group size.
--
-- Kind:     analysis
-- Scope:    trace
-- Input:    collective_events
-- Params:
--   by_label  BOOLEAN = false  split by the purpose given by ranges, such as a layer
-- Columns:
--   rank INTEGER, device VARCHAR, class VARCHAR
--   collective                     VARCHAR  name as in the call; NULL if only the name of the kernel is known
--   class_source                   VARCHAR  source of the class: kernel arguments, record_param_comms, range, op, or name
--   pg_name VARCHAR, pg_desc VARCHAR, group_size INTEGER
--   call_count                     BIGINT   number of collectives
--   kernel_ns BIGINT, comm_ns BIGINT
--   wall_ns                        BIGINT   exposed part, ns; adds up to exposed_comm_ns of analysis timeline
--   overlapped_pct                 DOUBLE   share of comm_ns with concurrent compute, 0 to 100
--   wall_pct                       DOUBLE
--   kernel_pct                     DOUBLE   kernel_ns as a share of the device window, percent; overlap counts twice
--   step_kernel_ns                 DOUBLE   sum of durations per step, ns; NULL without steps
--   step_pct                       DOUBLE   step_kernel_ns as a share of the mean step, percent; overlap counts twice
--   sized_count                    BIGINT   number of collectives with known message size
--   message_bytes                  BIGINT   sum of message sizes, bytes
--   algorithm_bytes_per_s          DOUBLE
--   bus_bytes_per_s                DOUBLE   bus bandwidth, bytes/s; NULL if a group size is unknown
--   kernel_count                   BIGINT   number of device events; above call_count if c10d ops (on cpu) or several copies per collective count too
--   sized_ns                       BIGINT   sum of durations of collectives with known message size, ns; NULL if 0
--   reason                         VARCHAR  why a bandwidth is missing or covers fewer than call_count; else NULL
--   label                          VARCHAR  purpose given by ranges, if by_label
--   measured_peak_bus_bytes_per_s  DOUBLE   measured peak bus bandwidth, bytes/s
--   measured_peak_pct DOUBLE, measured_peak_source VARCHAR, measured_peak_reason VARCHAR
-- Keep:     rank, device, class, pg_name, call_count, kernel_ns, overlapped_pct, wall_pct, message_bytes,
--           bus_bytes_per_s, measured_peak_pct, algorithm_bytes_per_s
-- View:
--   breakdown  totals=communication_totals
-- Invariant: 0 <= wall_ns AND wall_ns <= comm_ns AND comm_ns <= kernel_ns
-- Invariant: sized_count <= call_count AND (message_bytes IS NULL) = (sized_count = 0)
-- Invariant: reason IS NOT NULL OR (algorithm_bytes_per_s IS NOT NULL AND bus_bytes_per_s IS NOT NULL)
-- Invariant: (measured_peak_reason IS NULL) = (measured_peak_pct IS NOT NULL)

WITH step_time AS (
    SELECT trace_id, device, count(*) AS step_count, sum(span_ns)::BIGINT AS span_ns
    FROM device_steps
    GROUP BY trace_id, device
),

summed AS (
    SELECT
        trace_id, device, class,
        if($by_label, label, NULL) AS label,
        max(collective) FILTER (is_transfer) AS collective,
        max(class_source) FILTER (is_transfer) AS class_source,
        pg_name,
        any_value(pg_desc) AS pg_desc,
        group_size,
        any_value(bus_factor) AS bus_factor,
        count(*) FILTER (is_transfer AND piece = 0) AS call_count,
        count(*) FILTER (piece = 0) AS kernel_count,
        sum(dur_ns)::BIGINT AS kernel_ns,
        sum(kind_wall_ns)::BIGINT AS comm_ns,
        sum(wall_ns)::BIGINT AS wall_ns,
        sum(dur_ns) FILTER (step IS NOT NULL)::BIGINT AS step_kernel_ns,
        count(message_bytes) FILTER (is_transfer AND piece = 0) AS sized_count,
        sum(message_bytes) FILTER (is_transfer AND piece = 0)::BIGINT AS message_bytes,
        nullif(sum(call_ns) FILTER (is_transfer AND message_bytes IS NOT NULL), 0)::BIGINT
            AS sized_ns,
        mode(reason) FILTER (is_transfer) AS reason,
        min(collective_backend(name)) FILTER (is_transfer) AS backend,
        bool_and(collective_backend(name) IS NOT NULL) FILTER (is_transfer)
        AND min(collective_backend(name)) FILTER (is_transfer)
        = max(collective_backend(name)) FILTER (is_transfer) AS has_backend
    FROM collective_events
    GROUP BY
        trace_id, device, class, if($by_label, label, NULL), collective, class_source, pg_name,
        group_size
),

rated AS (
    SELECT
        *,
        1e9 * message_bytes / sized_ns AS algorithm_bytes_per_s,
        bus_factor * (1e9 * message_bytes / sized_ns) AS bus_bytes_per_s,
        CASE
            WHEN call_count = 0 THEN 'only the call, not a transfer'
            WHEN bus_bytes_per_s IS NULL
                THEN coalesce(reason, 'shorter than the clock resolution')
            WHEN NOT coalesce(has_backend, FALSE)
                THEN 'run by neither NCCL nor gloo, according to the names'
            WHEN collective_of(class) = 'other' AND NOT coalesce(is_reduce(collective), FALSE)
                THEN 'no benchmark covers such collectives'
        END AS why
    FROM summed
)

SELECT
    w.rank, w.device, s.class, s.collective, s.class_source, s.pg_name, s.pg_desc, s.group_size,
    s.call_count, s.kernel_ns, s.comm_ns, s.wall_ns,
    100.0 * (s.comm_ns - s.wall_ns) / nullif(s.comm_ns, 0) AS overlapped_pct,
    100.0 * s.wall_ns / nullif(w.window_ns, 0) AS wall_pct,
    100.0 * s.kernel_ns / nullif(w.window_ns, 0) AS kernel_pct,
    s.step_kernel_ns / t.step_count AS step_kernel_ns,
    100.0 * s.step_kernel_ns / nullif(t.span_ns, 0) AS step_pct,
    s.sized_count, s.message_bytes, s.algorithm_bytes_per_s, s.bus_bytes_per_s, s.kernel_count,
    s.sized_ns, s.reason, s.label, c.bus_bytes_per_s AS measured_peak_bus_bytes_per_s,
    100.0 * s.bus_bytes_per_s / c.bus_bytes_per_s AS measured_peak_pct,
    c.source AS measured_peak_source, CASE
        WHEN s.why IS NOT NULL THEN s.why
        WHEN peak_rate_gap(r.trace_id, r.reason) IS NOT NULL
            THEN peak_rate_gap(r.trace_id, r.reason)
        WHEN c.bus_bytes_per_s IS NULL
            THEN format('not measured with {} in a group of {}', s.backend, s.group_size)
    END AS measured_peak_reason
FROM rated AS s
INNER JOIN device_windows AS w ON s.trace_id = w.trace_id AND s.device = w.device
LEFT JOIN step_time AS t ON s.trace_id = t.trace_id AND s.device = t.device
LEFT JOIN peak_rates('collective') AS c
    ON
        s.trace_id = c.trace_id
        AND is_listed(c.device, s.device)
        AND s.class = collective_class(c.op)
        AND (collective_of(s.class) <> 'other' OR is_reduce(c.op))
        AND s.backend = c.backend
        AND s.group_size = c.group_size
        AND s.why IS NULL
LEFT JOIN peak_rate_reasons('collective') AS r
    ON s.trace_id = r.trace_id AND is_listed(r.device, s.device)
ORDER BY w.rank NULLS LAST, w.trace_id, w.device, s.kernel_ns DESC, s.class, s.pg_name, s.label
