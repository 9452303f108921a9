-- Functions for the class of a collective, by name, and for its bus bandwidth factor as in nccl-tests.
-- Recognizes names of c10d ops (c10d::_allgather_base_), NCCL records (_allgather_base, all_to_allv), and backend
-- ranges (nccl:all_reduce).
--
-- Kind:   function
-- Params:
--   name        VARCHAR  name of the collective
--   collective  VARCHAR  allreduce, allgather, reducescatter, alltoall, broadcast, p2p, or other
--   group_size  INTEGER  number of participating ranks

CREATE OR REPLACE MACRO named_collective(name) AS
CASE
    WHEN regexp_matches(name, '(?i)reduce_?scatter') THEN 'reducescatter'
    WHEN regexp_matches(name, '(?i)all_?reduce') THEN 'allreduce'
    WHEN regexp_matches(name, '(?i)all_?gather') THEN 'allgather'
    WHEN regexp_matches(name, '(?i)all_?to_?all') THEN 'alltoall'
    WHEN regexp_matches(name, '(?i)broadcast') THEN 'broadcast'
    WHEN regexp_matches(name, '(?i)(^|[:_])(i?send|i?recv)') THEN 'p2p'
    WHEN regexp_matches(name, '(?i)(reduce|gather|scatter|barrier)') THEN 'other'
END;

CREATE OR REPLACE MACRO collective_class(name) AS 'comm_' || named_collective(name);

CREATE OR REPLACE MACRO wire_factor(collective, group_size) AS
CASE
    WHEN collective = 'allreduce' THEN 2::DOUBLE * (group_size - 1) / group_size
    WHEN collective IN ('allgather', 'reducescatter', 'alltoall')
        THEN (group_size - 1) / group_size
    WHEN collective IN ('broadcast', 'p2p', 'other') THEN 1::DOUBLE
END;

-- Pattern of range names with the purpose of a collective in parentheses, such as `FSDP::all_gather
-- (layers.1)`.
CREATE OR REPLACE MACRO comm_label() AS '^\w+::\w+ \((.+)\)$';
