-- Wait and transfer interval of each collective on each rank: collective_intervals().
-- For collectives matched across ranks, the interval starts with the wait for other ranks, followed by the transfer.
-- The last rank to arrive has no wait.
--
-- Kind:     function
-- Columns:
--   trace_id INTEGER, device VARCHAR, event_id BIGINT, class VARCHAR, start_ns BIGINT, end_ns BIGINT
--   transfer_from_ns  BIGINT   end of the wait and start of the transfer, ns; NULL if not matched
--   wait_ns BIGINT, transfer_ns BIGINT
--   match_id          VARCHAR  common ID of the collective on all ranks; NULL if not matched
--   facts             STRUCT   process group, message size, bandwidth, and more

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
