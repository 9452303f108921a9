-- How long would the work of a whole model be, of which only some layers ran?
-- Work is in one of three places. What modules of layers launched grows with the number of layers. What other modules
-- launched (embedding, last norm, head), and the input, are around the layers, and stay as they are. Of the rest the trace
-- does not tell: the optimizer, the gradients and their communication, what no module holds, ranges of the user; and
-- where regions were compiled, all modules around the layers, for they may have called the layers' work. It may stay as
-- it is, or grow as the layers do: these are the two ends between which the time of the whole model lies.
-- whole_model_work('kept', layers) is a relation: of each kind of work of each phase, what ran and what the whole model
-- would take. Its relation names work as it likes; a NULL is a kind too.
--
-- Kind:     function
-- Access:   private
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
--   kept             VARCHAR  name of a relation with trace_id, device, phase, work, layer, place (of layer_place), time_ns
-- Columns:
--   trace_id     INTEGER  the trace
--   device       VARCHAR  number of the device, or cpu
--   phase        VARCHAR  as given
--   work         ANY      as given
--   layer_count  BIGINT   layers in the trace of the device
--   total_ns     BIGINT   time of such work, ns
--   layer_ns     BIGINT   of it in modules of layers, ns
--   around_ns    BIGINT   of it around the layers, ns
--   untold_ns    BIGINT   of it neither, ns
--   reason       VARCHAR  why nothing can be extrapolated; NULL if it can
--   low_ns       DOUBLE   extrapolated: time of the whole model, at least, ns
--   high_ns      DOUBLE   extrapolated: time of the whole model, at most, ns

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

CREATE OR REPLACE MACRO whole_model_work(kept, layers) AS TABLE (
    WITH ran AS (
        SELECT trace_id, device, count(DISTINCT layer) AS layer_count
        FROM query_table(kept)
        GROUP BY trace_id, device
    ),

    split AS (
        SELECT
            k.trace_id, k.device, k.phase, k.work,
            any_value(r.layer_count) AS layer_count,
            count(DISTINCT k.layer) FILTER (k.time_ns > 0) AS working_count,
            sum(k.time_ns)::BIGINT AS total_ns,
            coalesce(sum(k.time_ns) FILTER (k.place = 'layer'), 0)::BIGINT AS layer_ns,
            coalesce(sum(k.time_ns) FILTER (k.place = 'around'), 0)::BIGINT AS around_ns,
            coalesce(sum(k.time_ns) FILTER (k.place = 'untold'), 0)::BIGINT AS untold_ns
        FROM query_table(kept) AS k
        INNER JOIN ran AS r USING (trace_id, device)
        GROUP BY k.trace_id, k.device, k.phase, k.work
    ),

    reasoned AS (
        SELECT
            *,
            no_whole_reason(layer_count, working_count, layer_ns, untold_ns, total_ns) AS reason
        FROM split
    ),

    whole AS (
        SELECT
            *,
            CASE
                WHEN reason IS NULL AND layers > 0
                    THEN whole_ns(around_ns + untold_ns, layer_ns, layer_count, layers)
            END AS as_is_ns, CASE
                WHEN reason IS NULL AND layers > 0
                    THEN whole_ns(around_ns, layer_ns + untold_ns, layer_count, layers)
            END AS as_layers_ns
        FROM reasoned
    )

    SELECT
        * EXCLUDE (working_count, as_is_ns, as_layers_ns),
        least(as_is_ns, as_layers_ns) AS low_ns,
        greatest(as_is_ns, as_layers_ns) AS high_ns
    FROM whole
);
