-- Explanation of each kind of dependency edge.
--
-- Kind:     function
-- Params:
--   kind      VARCHAR  kind of the edge
--   known_by  VARCHAR  recorded, inferred, or assumed

CREATE OR REPLACE MACRO graph_reason(kind, known_by) AS
CASE kind
    WHEN 'work' THEN 'it ran so long'
    WHEN 'transfer' THEN 'the collective transfers from when its last rank is there'
    WHEN 'meeting' THEN 'a collective begins to transfer when its last rank is there'
    WHEN 'launch' THEN 'its launch was called; the latency is that of launches on an idle stream'
    WHEN 'stream' THEN 'works of a stream run one after the other'
    WHEN 'concurrent' THEN 'the work before it on its stream still ran'
    WHEN 'event'
        THEN
            CASE known_by
                WHEN 'recorded' THEN 'the file records that its stream waited for an event of it'
                WHEN 'assumed' THEN 'a change puts it behind this'
                ELSE 'a wait was called between the two launches, or this ended just before'
            END
    WHEN 'long_launch' THEN 'it began inside of a launch call that took long'
    WHEN 'no_launch' THEN 'its launch is not in the trace: the host was there then'
    WHEN 'backlog' THEN 'the first work of its stream began late: work from before the trace'
    WHEN 'start' THEN 'nothing in the trace tells what it waited for'
    WHEN 'host' THEN 'calls of a thread come one after the other, with its own time between them'
    WHEN 'thread' THEN 'the thread waited for this one (table thread_waits)'
    WHEN 'posted' THEN 'a thread of the backend runs it once it was posted'
    WHEN 'worker' THEN 'that thread ran this before'
    WHEN 'posted_wait' THEN 'the thread went on when a collective that it had posted was done'
    WHEN 'batch' THEN 'workers make one batch after the other; the thread took this one'
    WHEN 'loading' THEN 'a worker of the changed run makes the batch'
    WHEN 'spawn' THEN 'the first that a thread did comes behind what another one did last'
    WHEN 'mark' THEN 'a mark has no length'
    WHEN 'call' THEN 'the call took so long by itself'
    WHEN 'copy' THEN 'a copy that blocks returns when it is done'
    WHEN 'sync' THEN 'the call returns when this is done'
    WHEN 'queue' THEN 'a launch waits while the queue of its stream is full'
    WHEN 'implicit_sync' THEN 'the call took long and returned just when this was done'
END;
