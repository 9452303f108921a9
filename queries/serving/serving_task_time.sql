-- Which kind of work of a serving engine does each stretch of a device's time belong to, busy or idle?
-- The rows of serving_task_work, and idle time as work of its own: it goes to the phase, and for layers to the module, of
-- the device event that ends it. serving_task_time('module') is a relation.
--
-- Kind:     macro
-- Access:   private
-- Requires: serving_task_work
-- Params:
--   modules  VARCHAR  name of the relation of modules: table module
-- Columns:
--   trace_id      INTEGER  the trace
--   device        VARCHAR  number of the device, or cpu
--   phase         VARCHAR  as in serving_task_work
--   task_group    VARCHAR  computation, communication or rest
--   task          VARCHAR  as in serving_task_work; idle
--   module_id     INTEGER  module, as in table module; NULL where none
--   row_name      VARCHAR  row of modules where there is no module
--   kernel_count  BIGINT   1 for a device event, 0 for its further pieces and for idle time
--   kernel_ns     BIGINT   its duration, ns; 0 for idle time
--   wall_ns       BIGINT   time that is its own, ns

CREATE OR REPLACE MACRO serving_task_time(modules) AS TABLE (
    WITH task_work AS MATERIALIZED (
        SELECT * FROM serving_task_work(modules)
    )

    SELECT
        trace_id,
        device,
        phase,
        task_group,
        task,
        module_id,
        row_name,
        if(piece = 0, 1, 0)::BIGINT AS kernel_count,
        dur_ns AS kernel_ns,
        wall_ns
    FROM task_work
    UNION ALL
    SELECT
        trace_id,
        device,
        phase,
        'rest' AS task_group,
        'idle' AS task,
        module_id,
        row_name,
        0::BIGINT AS kernel_count,
        0::BIGINT AS kernel_ns,
        gap_ns AS wall_ns
    FROM task_work
    WHERE gap_ns > 0
);
