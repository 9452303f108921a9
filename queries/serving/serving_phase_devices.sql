-- Number of devices per serving phase: in total, with marked steps, and with a known share of the time.
--
-- Kind:     function
-- Access:   private
-- Params:
--   shared  VARCHAR  name of a relation with rank, device, phase, step_count, share_pct
-- Columns:
--   phase VARCHAR, device_count BIGINT, stepped_count BIGINT, timed_count BIGINT

CREATE OR REPLACE MACRO serving_phase_devices(shared) AS TABLE (
    SELECT
        phase,
        count(DISTINCT {rank: rank, device: device}) AS device_count,
        count(DISTINCT {rank: rank, device: device}) FILTER (step_count IS NOT NULL)
            AS stepped_count,
        count(DISTINCT {rank: rank, device: device}) FILTER (share_pct IS NOT NULL) AS timed_count
    FROM query_table(shared)
    GROUP BY phase
);
