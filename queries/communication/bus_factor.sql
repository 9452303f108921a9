-- How much of the message of a collective crosses the wires, by its class?
-- bus_factor turns algorithm bandwidth into bus bandwidth, as nccl-tests does.
--
-- Kind:     function
-- Params:
--   class       VARCHAR  class of the collective, as in table kernel_class
--   group_size  INTEGER  ranks that take part

CREATE OR REPLACE MACRO bus_factor(class, group_size) AS
wire_factor(collective_of(class), group_size);

-- The names of ranges that say what a collective is for, in parentheses: «FSDP::all_gather (layers.1)».
CREATE OR REPLACE MACRO comm_label() AS '^\w+::\w+ \((.+)\)$';
