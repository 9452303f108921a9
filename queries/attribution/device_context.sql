-- To which launch, op, module, phase and step does each device event belong?
-- One row for each row of device_events: what its launch tells (table placed_context), and for device events whose
-- launch is not in the trace, what repetition and names tell (table inferred_context).
--
-- Kind:     view
-- Requires: placed_context, inferred_context
-- Columns:
--   trace_id         INTEGER  the trace
--   event_id         BIGINT   the device event
--   piece            BIGINT   number of the piece of a CPU op, from 0; 0 for work of accelerators
--   launch_id        BIGINT   the launch; NULL where it is not in the trace
--   launch_delay_ns  BIGINT   from the end of the launch to the start on the device, ns; negative if it began before
--   op_id            BIGINT   innermost op around the launch
--   op_name          VARCHAR  its name
--   module_id        INTEGER  module, as in table module; NULL where none
--   phase            VARCHAR  phase; other where unknown
--   row_name         VARCHAR  row of modules where there is no module; NULL where there is one
--   step             BIGINT   number of the step whose range on the CPU holds the launch
--   like_event_id    BIGINT   the linked device event that one without a launch repeats; NULL where it fits none
--   is_inferred      BOOLEAN  phase, module or row do not come from the launch's own context
--   link             VARCHAR  launch, before_window, missing_launch or cpu
-- Invariant: (module_id IS NULL) <> (row_name IS NULL)
-- Invariant: (launch_id IS NULL) = (link IN ('before_window', 'missing_launch'))

SELECT
    p.trace_id,
    p.event_id,
    p.piece,
    p.launch_id,
    p.launch_delay_ns,
    p.op_id,
    p.op_name,
    coalesce(p.module_id, i.module_id) AS module_id,
    coalesce(p.phase, i.phase, 'other') AS phase,
    CASE
        WHEN coalesce(p.module_id, i.module_id) IS NULL
            THEN coalesce(p.row_name, i.row_name, '(unattributed)')
    END AS row_name,
    p.step,
    i.like_event_id,
    p.is_inferred OR i.phase IS NOT NULL OR i.like_event_id IS NOT NULL AS is_inferred,
    p.link
FROM placed_context AS p
LEFT JOIN inferred_context AS i ON p.trace_id = i.trace_id AND p.event_id = i.event_id
