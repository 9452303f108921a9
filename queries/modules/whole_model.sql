-- How long would the work of a whole model be, of which only some layers ran?
-- Work is in one of three places. What modules of layers launched grows with the number of layers. What other modules
-- launched (embedding, last norm, head), and the input, are around the layers, and stay as they are. Of the rest the trace
-- does not tell: the optimizer, the gradients and their communication, what no module holds, ranges of the user; and
-- where regions were compiled, all modules around the layers, for they may have called the layers' work. It may stay as
-- it is, or grow as the layers do: these are the two ends between which the time of the whole model lies.
--
-- Kind:   macro
-- Params:
--   phase            VARCHAR  phase of the work, as in attribution
--   layer            INTEGER  layer of its module; NULL outside of layers
--   source           VARCHAR  what told its module, as in table module; NULL without module
--   row_name         VARCHAR  row of modules where there is no module
--   is_compiled      BOOLEAN  the trace has regions that torch.compile compiled
--   fixed_ns         BIGINT   time that stays as it is, ns
--   grown_ns         BIGINT   time that grows with the layers, ns
--   layer_count      BIGINT   layers that ran
--   working_count    BIGINT   layers that have such work
--   layer_ns         BIGINT   time in modules of layers, ns
--   untold_ns        BIGINT   time of which is not told whether it grows, ns
--   total_ns         BIGINT   all time, ns
--   layers           BIGINT   layers of the whole model
--   part_ns          DOUBLE   time of a part, ns
--   others_ns        DOUBLE   time of the other parts, ns

CREATE OR REPLACE MACRO layer_place(phase, layer, source, row_name, is_compiled) AS
CASE
    WHEN layer IS NOT NULL THEN 'layer'
    WHEN row_name = '(data loading)' THEN 'around'
    WHEN phase = 'optimizer' OR is_compiled THEN 'untold'
    WHEN source <> 'range' THEN 'around'
    ELSE 'untold'
END;

CREATE OR REPLACE MACRO whole_ns(fixed_ns, grown_ns, layer_count, layers) AS
fixed_ns + if(grown_ns = 0, 0, 1.0 * grown_ns * layers / layer_count);

CREATE OR REPLACE MACRO whole_pct(part_ns, others_ns) AS
100.0 * part_ns / nullif(part_ns + others_ns, 0);

CREATE OR REPLACE MACRO no_whole_reason(
    layer_count, working_count, layer_ns, untold_ns, total_ns
) AS
CASE
    WHEN layer_count = 0 THEN 'the trace tells no layers'
    WHEN total_ns > 0 AND untold_ns = total_ns THEN 'not told whether it grows with the layers'
    WHEN layer_ns > 0 AND working_count < layer_count
        THEN format('only {} of {} layers have it', working_count, layer_count)
END;
