-- What is a collective by its name, and how much of its message crosses the wires?
-- Names are those of c10d ops (c10d::_allgather_base_), of NCCL's records (_allgather_base, all_to_allv) and of the
-- ranges of a backend (nccl:all_reduce). bus_factor turns algorithm bandwidth into bus bandwidth, as nccl-tests does.
--
-- Kind:   function
-- Params:
--   name        VARCHAR  name of the collective
--   class       VARCHAR  class of the collective, as in table kernel_class
--   group_size  INTEGER  ranks that take part

CREATE OR REPLACE MACRO collective_class(name) AS
CASE
    WHEN regexp_matches(name, '(?i)reduce_?scatter') THEN 'comm_reducescatter'
    WHEN regexp_matches(name, '(?i)all_?reduce') THEN 'comm_allreduce'
    WHEN regexp_matches(name, '(?i)all_?gather') THEN 'comm_allgather'
    WHEN regexp_matches(name, '(?i)all_?to_?all') THEN 'comm_alltoall'
    WHEN regexp_matches(name, '(?i)broadcast') THEN 'comm_broadcast'
    WHEN regexp_matches(name, '(?i)(^|[:_])(i?send|i?recv)') THEN 'comm_p2p'
    WHEN regexp_matches(name, '(?i)(reduce|gather|scatter|barrier)') THEN 'comm_other'
END;

CREATE OR REPLACE MACRO bus_factor(class, group_size) AS
CASE
    WHEN class = 'comm_allreduce' THEN 2::DOUBLE * (group_size - 1) / group_size
    WHEN class IN ('comm_allgather', 'comm_reducescatter', 'comm_alltoall')
        THEN (group_size - 1) / group_size
    WHEN class IN ('comm_broadcast', 'comm_p2p', 'comm_other') THEN 1::DOUBLE
END;
