-- Which number stands for a thread, or a gap, together with a kind of wait?
-- The macros of intervals compare what has the same part: here, waits of one kind on one thread. One number for the two
-- is compared faster than a text.
--
-- Kind:   function
-- Params:
--   id    BIGINT   number of the thread or the gap
--   kind  VARCHAR  kind of wait, as in table host_waits, or profiler
--   key   BIGINT   what stands for the two

CREATE OR REPLACE MACRO wait_kinds() AS [
    'data_loading', 'allocator', 'comm_wait', 'sync', 'copy', 'lock', 'profiler'
];

CREATE OR REPLACE MACRO wait_key(id, kind) AS
id * len(wait_kinds()) + list_position(wait_kinds(), kind) - 1;

CREATE OR REPLACE MACRO id_of_wait_key(key) AS key // len(wait_kinds());

CREATE OR REPLACE MACRO kind_of_wait_key(key) AS wait_kinds()[key % len(wait_kinds()) + 1];
