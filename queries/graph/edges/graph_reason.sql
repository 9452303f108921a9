-- Explanation of each kind of dependency edge.
--
-- Kind:     function
-- Params:
--   kind      VARCHAR  kind of the edge
--   known_by  VARCHAR  recorded, inferred, or assumed

CREATE OR REPLACE MACRO graph_reason(kind, known_by) AS
CASE kind
    WHEN 'work' THEN 'recorded duration'
    WHEN 'transfer' THEN 'transfer time of the collective after its last rank arrives'
    WHEN 'meeting' THEN 'a collective starts to transfer when its last rank arrives'
    WHEN 'launch' THEN 'launch call; the latency comes from launches on an idle stream'
    WHEN 'stream' THEN 'the previous kernel of the same stream'
    WHEN 'concurrent' THEN 'the previous kernel of the same stream was still running'
    WHEN 'event'
        THEN
            CASE known_by
                WHEN 'recorded' THEN 'recorded wait of the stream for an event'
                WHEN 'assumed' THEN 'inserted by a change'
                ELSE 'a wait was called between the two launches, or this ended just before'
            END
    WHEN 'long_launch' THEN 'it started during a long launch call'
    WHEN 'no_launch' THEN 'its launch is not in the trace: host time at its start'
    WHEN 'backlog' THEN 'the first kernel of its stream started late: work from before the trace'
    WHEN 'start' THEN 'unknown'
    WHEN 'host' THEN 'calls of a thread run in order, with host time between them'
    WHEN 'thread' THEN 'recorded wait for another thread (table thread_waits)'
    WHEN 'posted' THEN 'a backend thread runs it after it was posted'
    WHEN 'worker' THEN 'the same thread ran this before'
    WHEN 'posted_wait' THEN 'the thread continued when its posted collective finished'
    WHEN 'batch' THEN 'workers load batches in order; the thread consumed this one'
    WHEN 'loading' THEN 'a worker of the changed run loads the batch'
    WHEN 'spawn' THEN 'first call of a thread after the last call of another thread'
    WHEN 'mark' THEN 'a mark has no duration'
    WHEN 'call' THEN 'duration of the call itself'
    WHEN 'copy' THEN 'a blocking copy returns when it is done'
    WHEN 'sync' THEN 'the call returns when this is done'
    WHEN 'queue' THEN 'a launch waits while the queue of its stream is full'
    WHEN 'implicit_sync' THEN 'the call took long and returned just when this finished'
END;
