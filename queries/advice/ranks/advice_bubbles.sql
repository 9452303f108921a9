-- Pipeline bubbles: time in which stages wait for each other.
-- With equal stages, a schedule costs (stages - 1) / (micro-batches + stages - 1) of a step. No gain is given because
-- the time of smaller micro-batches is unknown until they are measured.
--
-- Kind:     advice
-- Scope:    run
-- Input:    pipeline_bubbles

WITH pipeline AS (
    SELECT
        max(stage_count) AS stage_count,
        max(microbatch_count) AS microbatch_count,
        any_value(schedule) AS schedule,
        max(schedule_bubble_pct) AS schedule_pct,
        sum(bubble_ns * rank_count) / sum(rank_count) AS bubble_ns,
        100 * sum(bubble_ns * rank_count) / sum(window_ns * rank_count) AS bubble_pct
    FROM pipeline_bubbles
)

SELECT
    format(
        '{} pipeline stages wait {} for each other ({:.1f} % of their time){}', stage_count,
        in_ms(bubble_ns), bubble_pct,
        coalesce(
            format(
                '. With equal stages, {} with {:.0f} micro-batches has a bubble of {:.1f} % '
                || '({:.1f} % with twice as many)',
                coalesce(schedule, 'the schedule'), microbatch_count, schedule_pct,
                100 * (stage_count - 1) / (2 * microbatch_count + stage_count - 1)
            ), ''
        )
    ) AS what,
    'pipeline bubbles' AS place,
    NULL::VARCHAR AS change,
    bubble_ns::BIGINT AS cost_ns,
    'Record a second run with more micro-batches per step, interleaved stages (interleaved '
    || '1F1B), or layers moved away from the stage that waits least' AS remedy,
    'tracekit query pipeline_bubbles TRACE' AS evidence
FROM pipeline
WHERE bubble_ns >= 1
