-- Functions to look up peaks and measured peak rates.
-- peak_rates(kind) lists rates of a kind, and peak_rate_reasons(kind) the reasons why devices have none. is_listed
-- joins both to the devices that ran (`*` matches all but cpu). peak_rate_gap returns the reason why a device has no
-- rate, even if peak_rate_reasons has no row for the device. unknown_peak returns the reason why no peak of a device is
-- known; else NULL. collective_backend and is_reduce classify recorded
-- collectives by name. RCCL kernels have the same names as NCCL kernels.
--
-- Kind:     function
-- Access:   private
-- Params:
--   wanted  VARCHAR  product (GEMM), memory, copy, or collective
--   listed  VARCHAR  device, as in device_peak_rate
--   ran_on  VARCHAR  device that ran
--   known   INTEGER  trace_id of the device, or of the row of peak_rate_reasons; NULL if none
--   reason  VARCHAR  reason in the row of peak_rate_reasons
--   name    VARCHAR  name of the kernel or span; for is_reduce, of the collective
-- Columns:
--   trace_id  INTEGER
--   device  VARCHAR  device number, cpu, or *
--   reason  VARCHAR  why there is no rate of this kind; else NULL. peak_rates has the columns of device_peak_rate

CREATE OR REPLACE MACRO peak_rates(wanted) AS TABLE (
    SELECT * EXCLUDE (reason)
    FROM device_peak_rate
    WHERE kind = wanted AND reason IS NULL
);

CREATE OR REPLACE MACRO peak_rate_reasons(wanted) AS TABLE (
    WITH known AS (
        SELECT
            trace_id, device,
            bool_or(reason IS NULL AND kind = wanted) AS has_one,
            bool_or(reason IS NULL) AS has_any,
            any_value(reason) FILTER (coalesce(kind, wanted) = wanted) AS refusal
        FROM device_peak_rate
        GROUP BY trace_id, device
    )

    SELECT
        trace_id, device, CASE
            WHEN has_one THEN NULL
            WHEN refusal IS NOT NULL THEN refusal
            WHEN NOT has_any THEN 'no benchmark for this device'
            WHEN wanted = 'memory' THEN 'memory bandwidth was not measured'
            ELSE 'no ' || wanted || ' was measured on this device'
        END AS reason
    FROM known
);

CREATE OR REPLACE MACRO is_listed(listed, ran_on) AS
listed = ran_on OR (listed = '*' AND ran_on <> 'cpu');

CREATE OR REPLACE MACRO peak_rate_gap(known, reason) AS
if(known IS NULL, 'no benchmark for this device', reason);

CREATE OR REPLACE MACRO unknown_peak(known, ran_on) AS
CASE
    WHEN EXISTS (
        SELECT 1 FROM device_peak AS peak
        WHERE peak.trace_id = known AND peak.device IN (ran_on, '*')
    ) THEN NULL
    WHEN ran_on = 'cpu' THEN 'the peak of a CPU is unknown'
    ELSE 'the peak of this device is unknown'
END;

CREATE OR REPLACE MACRO collective_backend(name) AS
CASE
    WHEN regexp_matches(name, '(?i)^(?:void )?[nr]ccl') THEN 'nccl'
    WHEN starts_with(name, 'gloo:') THEN 'gloo'
END;

CREATE OR REPLACE MACRO is_reduce(name) AS
regexp_matches(name, '(?i)(^|[:_])reduce_?$');
