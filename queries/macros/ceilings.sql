-- Which measured ceilings have the devices that ran, and why does one lack them?
-- ceilings('product') has a row for each device and rate that was measured on it, ceiling_reasons('product') one for
-- each device. What table device_ceiling says of all devices of a trace (*) is not said of a CPU.
-- collective_backend and is_reduce tell which of the measured collectives one in a trace may be: who ran it, by the
-- name of its kernel or span (RCCL names its kernels as NCCL does), and whether one of class comm_other is a reduce.
--
-- Kind:     macro
-- Requires: device_windows, device_ceiling
-- Params:
--   wanted  VARCHAR  kind of ceiling: product, memory, copy or collective
--   name    VARCHAR  of a kernel or span; of is_reduce, of a collective
-- Columns:
--   trace_id  INTEGER  the trace
--   device    VARCHAR  number of the device, or cpu
--   reason    VARCHAR  of ceiling_reasons: why there is none of this kind; NULL if there is one. ceilings has the other
--                      columns of table device_ceiling instead

CREATE OR REPLACE MACRO ceilings(wanted) AS TABLE (
    SELECT
        w.trace_id,
        w.device,
        c.* EXCLUDE (trace_id, device, reason)
    FROM device_windows AS w
    INNER JOIN device_ceiling AS c
        ON
            w.trace_id = c.trace_id
            AND (w.device = c.device OR (c.device = '*' AND w.device <> 'cpu'))
    WHERE c.kind = wanted AND c.reason IS NULL
);

CREATE OR REPLACE MACRO ceiling_reasons(wanted) AS TABLE (
    WITH known AS (
        SELECT
            w.trace_id,
            w.device,
            coalesce(bool_or(c.reason IS NULL AND c.kind = wanted), FALSE) AS has_one,
            coalesce(bool_or(c.reason IS NULL AND c.kind <> wanted), FALSE) AS has_other,
            any_value(c.reason) FILTER (coalesce(c.kind, wanted) = wanted) AS refusal
        FROM device_windows AS w
        LEFT JOIN device_ceiling AS c
            ON
                w.trace_id = c.trace_id
                AND (w.device = c.device OR (c.device = '*' AND w.device <> 'cpu'))
        GROUP BY w.trace_id, w.device
    )

    SELECT
        trace_id,
        device,
        CASE
            WHEN has_one THEN NULL
            WHEN refusal IS NOT NULL THEN refusal
            WHEN NOT has_other THEN 'nothing that was measured on this device is at hand'
            WHEN wanted = 'memory' THEN 'the rate of its memory was not measured'
            ELSE 'no ' || wanted || ' was measured on this device'
        END AS reason
    FROM known
);

CREATE OR REPLACE MACRO collective_backend(name) AS
CASE
    WHEN regexp_matches(name, '(?i)^(?:void )?[nr]ccl') THEN 'nccl'
    WHEN starts_with(name, 'gloo:') THEN 'gloo'
END;

CREATE OR REPLACE MACRO is_reduce(name) AS
regexp_matches(name, '(?i)(^|[:_])reduce_?$');
