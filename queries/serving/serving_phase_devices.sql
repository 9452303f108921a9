-- Of how many devices of a run does each phase of a serving engine tell, its steps, and shares of it?
-- For means over devices: serving_phase_devices('shared') is a relation with a row for each phase.
--
-- Kind:     function
-- Access:   private
-- Params:
--   shared  VARCHAR  name of a relation with rank, device, phase, step_count, share_pct
-- Columns:
--   phase          VARCHAR  as given
--   device_count   BIGINT   devices that have the phase
--   stepped_count  BIGINT   of them those where ranges mark its steps
--   timed_count    BIGINT   of them those of which a share is known

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
