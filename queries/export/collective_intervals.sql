-- When did each rank wait in a collective, and when did it transfer?
-- A row of collective_intervals() is a collective of one rank, as in macro collective_matches. Where it is matched with
-- those of other ranks, the wait comes first and the transfer behind it: the last rank to arrive has no wait, and all
-- of them end together.
--
-- Kind:     function
-- Columns:
--   trace_id         INTEGER  the trace
--   device           VARCHAR  number of the device, or cpu
--   event_id         BIGINT   the device event
--   class            VARCHAR  class of the collective
--   start_ns         BIGINT   start, ns
--   end_ns           BIGINT   end, ns
--   transfer_from_ns BIGINT   end of the wait and start of the transfer, ns; NULL if not matched
--   wait_ns          BIGINT   length of the wait, ns; NULL if not matched
--   transfer_ns      BIGINT   length of the transfer, ns; NULL if not matched
--   match_id         VARCHAR  the same for all ranks of one collective; NULL if not matched
--   facts            STRUCT   what else is known, by name: group, message size, bandwidth and so on

CREATE OR REPLACE MACRO collective_intervals() AS TABLE (
    SELECT
        c.trace_id, c.device, c.event_id, c.class, c.ts_ns AS start_ns, c.end_ns,
        c.end_ns - m.transfer_ns AS transfer_from_ns,
        m.wait_ns, m.transfer_ns,
        if(m.reason IS NULL, m.match_id, NULL) AS match_id,
        {
            collective: c.collective,
            process_group: c.pg_name,
            group_description: c.pg_desc,
            group_size: c.group_size,
            seq: c.seq,
            dtype: c.dtype,
            message_bytes: c.message_bytes,
            bytes_per_s: 1e9 * c.message_bytes / nullif(coalesce(m.transfer_ns, c.call_ns), 0),
            bus_bytes_per_s: 1e9 * c.message_bytes * c.bus_factor
            / nullif(coalesce(m.transfer_ns, c.call_ns), 0),
            exposed_ns: c.wall_ns,
            phase: c.phase,
            step: c.step,
            wait_ns: m.wait_ns,
            transfer_ns: m.transfer_ns,
            is_last: m.is_last,
            matched_by: if(m.reason IS NULL, m.matched_by, NULL),
            rank_count: m.rank_count,
            not_matched: m.reason,
            not_known: c.reason
        } AS facts
    FROM collective_events AS c
    INNER JOIN collective_matches AS m USING (trace_id, event_id)
    WHERE c.is_transfer AND c.piece = 0
);
