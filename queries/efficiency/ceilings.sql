-- Which measured ceilings are there for a device, and why does it lack others?
-- ceilings('product') are the rates of a kind, ceiling_reasons('product') has a row for each device about which table
-- device_ceiling says anything. is_listed joins either to the devices that ran: what is said of all devices of a trace
-- (*) is not said of a CPU. ceiling_gap is the reason for a device that may have no row.
-- collective_backend and is_reduce tell which of the measured collectives one in a trace may be: who ran it, by the
-- name of its kernel or span (RCCL names its kernels as NCCL does), and whether one of class comm_other is a reduce.
--
-- Kind:     function
-- Access:   private
-- Params:
--   wanted  VARCHAR  kind of ceiling: product, memory, copy or collective
--   listed  VARCHAR  device as table device_ceiling lists it
--   device  VARCHAR  number of the device that ran, or cpu
--   known   INTEGER  trace_id of the row of ceiling_reasons; NULL if there is none
--   reason  VARCHAR  its reason
--   name    VARCHAR  of a kernel or span; of is_reduce, of a collective
-- Columns:
--   trace_id  INTEGER  the trace
--   device    VARCHAR  number of the device, cpu, or *
--   reason    VARCHAR  of ceiling_reasons: why there is none of this kind; NULL if there is one. ceilings has the other
--                      columns of table device_ceiling instead

CREATE OR REPLACE MACRO ceilings(wanted) AS TABLE (
    SELECT * EXCLUDE (reason)
    FROM device_ceiling
    WHERE kind = wanted AND reason IS NULL
);

CREATE OR REPLACE MACRO ceiling_reasons(wanted) AS TABLE (
    WITH known AS (
        SELECT
            trace_id, device,
            bool_or(reason IS NULL AND kind = wanted) AS has_one,
            bool_or(reason IS NULL) AS has_any,
            any_value(reason) FILTER (coalesce(kind, wanted) = wanted) AS refusal
        FROM device_ceiling
        GROUP BY trace_id, device
    )

    SELECT
        trace_id, device, CASE
            WHEN has_one THEN NULL
            WHEN refusal IS NOT NULL THEN refusal
            WHEN NOT has_any THEN 'no benchmark for this device'
            WHEN wanted = 'memory' THEN 'the rate of its memory was not measured'
            ELSE 'no ' || wanted || ' was measured on this device'
        END AS reason
    FROM known
);

CREATE OR REPLACE MACRO is_listed(listed, device) AS
listed = device OR (listed = '*' AND device <> 'cpu');

CREATE OR REPLACE MACRO ceiling_gap(known, reason) AS
if(known IS NULL, 'no benchmark for this device', reason);

CREATE OR REPLACE MACRO collective_backend(name) AS
CASE
    WHEN regexp_matches(name, '(?i)^(?:void )?[nr]ccl') THEN 'nccl'
    WHEN starts_with(name, 'gloo:') THEN 'gloo'
END;

CREATE OR REPLACE MACRO is_reduce(name) AS
regexp_matches(name, '(?i)(^|[:_])reduce_?$');
