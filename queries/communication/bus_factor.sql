-- Ratio of bus bandwidth to algorithm bandwidth by collective class, as in nccl-tests.
--
-- Kind:     function
-- Params:
--   class       VARCHAR  class of the collective
--   group_size  INTEGER  number of participating ranks

CREATE OR REPLACE MACRO bus_factor(class, group_size) AS
wire_factor(collective_of(class), group_size);

-- Pattern of range names that show the purpose of a collective in parentheses:
-- `FSDP::all_gather (layers.1)`.
CREATE OR REPLACE MACRO comm_label() AS '^\w+::\w+ \((.+)\)$';
