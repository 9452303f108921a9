-- Layer of each device event in traces without modules, from repeated kernel sequences.
-- A pass is the work of one phase within a graph replay that contains attention. Outside such replays, a pass is
-- consecutive forward or backward work on one stream. It ends at a new phase or step, at a graph replay with attention,
-- or at a token embedding. A repeated block calls attention once, and all its repetitions contain at least half of the
-- GEMMs and attention of the pass. The shortest such block is used. GEMMs are compared by name, and other kernels by
-- class because the first layer may be fused differently. The last block may be incomplete at its end.
--
-- Kind:     table
-- Created:  on demand
-- Input:    device_events
-- Columns:
--   trace_id     INTEGER -> trace
--   event_id     BIGINT -> device_events  device event
--   piece        BIGINT
--   pass_id      BIGINT                   ID of the first event of a group of consecutive layers; a pass can have several groups
--   layer        INTEGER                  layer number, from 0 in forward order; NULL before and after the layers
--   place        VARCHAR                  before, layer, or after
--   outer_count  BIGINT                   maximum number of attention calls of a pass outside its repeated blocks
-- Invariant: (layer IS NULL) = (place <> 'layer') AND (layer IS NULL OR layer >= 0) AND outer_count >= 0

-- Only token embeddings start a pass. Embeddings of positions and attention biases have tables of
-- other sizes and are ignored.
WITH embedding AS (
    SELECT trace_id, pid, tid, ts_ns
    FROM event
    WHERE name = 'aten::embedding'
    QUALIFY
        args ->> '$."Input Dims"[0]' IS NOT DISTINCT FROM first_value(args ->> '$."Input Dims"[0]')
            OVER (PARTITION BY trace_id, pid, tid ORDER BY ts_ns)
),

work AS (
    SELECT
        a.trace_id, a.event_id, a.piece, a.device, a.stream, a.ts_ns, a.phase, a.step,
        if(contains(l.name, 'GraphLaunch'), a.launch_id, NULL) AS graph_launch_id,
        hash(if(is_gemm(a.class), a.name, a.class)) AS word,
        has_flops(a.class) AS is_work,
        is_model_work(a.class) AND is_fusible(a.class) AS is_norm,
        has_flops(a.class) AND NOT is_gemm(a.class) AND NOT is_conv(a.class) AS is_attention,
        is_softmax(a.class) AS is_softmax,
        e.ts_ns AS embedding_ts_ns
    FROM attributed_events AS a
    LEFT JOIN launch AS l USING (trace_id, launch_id)
    ASOF LEFT JOIN embedding AS e
        ON l.trace_id = e.trace_id AND l.pid = e.pid AND l.tid = e.tid AND l.ts_ns >= e.ts_ns
    WHERE
        a.device <> 'cpu'
        AND a.phase NOT IN ('data', 'recompute', 'optimizer')
        AND a.trace_id NOT IN (SELECT trace_id FROM module WHERE layer IS NOT NULL)
),

-- Graphs without attention are only a part of a pass, because attention runs between them.
ordered AS (
    SELECT
        *,
        if(
            bool_or(is_attention OR is_softmax) OVER (PARTITION BY trace_id, graph_launch_id),
            graph_launch_id,
            NULL
        ) AS replay_id
    FROM work
),

pass_boundary AS (
    SELECT
        *,
        lag({phase: phase, step: step, replay_id: replay_id, embedding: embedding_ts_ns})
            OVER queue AS before,
        coalesce(
            before IS DISTINCT FROM
            {phase: phase, step: step, replay_id: replay_id, embedding: embedding_ts_ns}, FALSE
        ) AS is_first
    FROM ordered
    WINDOW queue AS (PARTITION BY trace_id, device, stream ORDER BY ts_ns, event_id, piece)
),

numbered AS (
    SELECT
        *,
        coalesce(
            replay_id, any_value(if(is_first, event_id, NULL)) OVER (
                PARTITION BY trace_id, device, stream
                ORDER BY ts_ns DESC, event_id DESC, piece DESC
                ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
            )
        ) AS pass_id
    FROM pass_boundary
),

placed AS MATERIALIZED (
    SELECT
        *,
        row_number() OVER pass AS position,
        is_attention OR (is_softmax AND NOT bool_or(is_attention) OVER (
            PARTITION BY trace_id, device, phase, pass_id
        )) AS is_turn
    FROM numbered
    WINDOW pass AS (
        PARTITION BY trace_id, device, phase, pass_id ORDER BY ts_ns, event_id, piece
    )
),

pass AS (
    SELECT trace_id, device, phase, pass_id, hash(list(word ORDER BY position)) AS words
    FROM placed
    GROUP BY trace_id, device, phase, pass_id
    HAVING count(*) FILTER (is_work) > 1
),

-- An attention kernel starts a new call only if a GEMM ran after the previous attention kernel. A
-- softmax after all GEMMs belongs to the loss or the sampler.
item AS MATERIALIZED (
    SELECT
        f.words, p.position, p.word, p.is_work, p.is_norm,
        p.is_turn
        AND p.position < max(p.position) FILTER (p.is_work) OVER (PARTITION BY f.words)
        AND coalesce(any_value(CASE WHEN p.is_turn THEN FALSE WHEN p.is_work THEN TRUE END) OVER (
            PARTITION BY f.words ORDER BY p.position DESC
            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        ), TRUE) AS is_call
    FROM (
        FROM pass
        QUALIFY row_number() OVER (PARTITION BY words ORDER BY trace_id, device, phase, pass_id) = 1
    ) AS f
    INNER JOIN placed AS p USING (trace_id, device, phase, pass_id)
),

three AS (
    SELECT
        words, position,
        hash(word, lead(word) OVER pass, lead(word, 2) OVER pass) AS three
    FROM item
    WINDOW pass AS (PARTITION BY words ORDER BY position)
),

distance AS (
    SELECT
        words,
        position - lag(position) OVER (PARTITION BY words, three ORDER BY position) AS length
    FROM three
),

candidate_length AS (
    SELECT words, length, count(*) AS again_count
    FROM distance
    WHERE length > 1
    GROUP BY words, length
    QUALIFY row_number() OVER (PARTITION BY words ORDER BY again_count DESC, length) <= 8
),

compared AS MATERIALIZED (
    SELECT
        t.words, t.length, i.position, i.is_work, i.is_norm, i.is_call,
        i.word = lead(i.word, t.length::INTEGER) OVER (
            PARTITION BY t.words, t.length ORDER BY i.position
        ) AS is_same
    FROM item AS i
    INNER JOIN candidate_length AS t USING (words)
),

same AS (
    SELECT
        *, position - row_number() OVER (PARTITION BY words, length ORDER BY position) AS section
    FROM compared
    WHERE is_same
),

-- If several kernels could start a block, the block starts with a norm.
block_row AS (
    SELECT
        words, length,
        min(position) AS earliest,
        min(position) FILTER (is_norm) AS norm,
        if(norm - earliest <= count(*) % length, norm, earliest) AS first,
        first + (count(*) // length + 1) * length AS full_end,
        earliest + count(*) + length AS last,
        if(
            2 * (last - full_end) >= length AND max(position) FILTER (is_call) >= full_end - length,
            last,
            full_end
        ) AS next
    FROM same
    GROUP BY words, length, section
    HAVING count(*) >= length
),

-- If two groups of repeated blocks overlap, drop the later group.
disjoint_blocks AS (
    SELECT *
    FROM block_row
    QUALIFY coalesce(
        first >= max(next) OVER (
            PARTITION BY words, length ORDER BY first
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), TRUE
    )
),

block AS (
    SELECT
        c.words, c.length,
        count(*) FILTER (c.is_work) AS work_count,
        count(*) FILTER (c.is_call) AS call_count,
        ceil(count(*) / c.length) AS block_count
    FROM compared AS c
    ASOF INNER JOIN disjoint_blocks AS a
        ON c.words = a.words AND c.length = a.length AND c.position >= a.first
    WHERE c.position < a.next
    GROUP BY c.words, c.length
),

total AS (
    SELECT
        words,
        count(*) FILTER (is_work) AS work_count,
        count(*) FILTER (is_call) AS call_count
    FROM item
    GROUP BY words
),

chosen AS (
    SELECT b.words, b.length, t.call_count - b.call_count AS outer_count
    FROM block AS b
    INNER JOIN total AS t USING (words)
    WHERE
        b.work_count * 2 >= t.work_count
        AND b.call_count = b.block_count
    QUALIFY row_number() OVER (PARTITION BY b.words ORDER BY b.length) = 1
),

numbered_layer AS (
    SELECT
        p.*,
        if(p.position < a.next, (p.position - a.first) // c.length, NULL)::INTEGER AS layer,
        CASE
            WHEN p.position < a.next THEN 'layer'
            WHEN a.first IS NULL THEN 'before'
            ELSE 'after'
        END AS place,
        c.outer_count,
        coalesce(a.first, min(a.first) OVER (
            PARTITION BY p.trace_id, p.device, p.phase, p.pass_id
        )) AS first
    FROM placed AS p
    INNER JOIN pass AS f USING (trace_id, device, phase, pass_id)
    INNER JOIN chosen AS c USING (words)
    ASOF LEFT JOIN disjoint_blocks AS a
        ON c.words = a.words AND c.length = a.length AND p.position >= a.first
)

SELECT
    trace_id, event_id, piece,
    min(event_id) OVER row_of_blocks AS pass_id,
    if(
        phase = 'backward',
        greatest(
            max(layer) FILTER (phase <> 'backward') OVER (PARTITION BY trace_id, device),
            max(layer) OVER row_of_blocks
        ) - layer,
        layer
    ) AS layer,
    place, outer_count
FROM numbered_layer
-- If the first layer starts at the first kernel of its pass, the pass started before the recording,
-- so drop these layers. Graph replays are complete.
WHERE replay_id IS NOT NULL OR first > 1
WINDOW row_of_blocks AS (PARTITION BY trace_id, device, phase, pass_id, first)
ORDER BY trace_id, event_id, piece
