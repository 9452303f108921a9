-- Which modules were called, and how do they contain one another?
-- Instances of nn.Modules, by the name that is known best: qualified names from ranges, else the chain of Kineto's
-- names of class and counter. In engines without nn.Modules, the stages of their layers. User ranges serve as modules
-- for work that no module encloses.
--
-- Kind:     table
-- Columns:
--   trace_id       INTEGER -> trace             the trace
--   module_id      INTEGER                      number of the module in its trace
--   parent_id      INTEGER -> module.module_id  the module around it; NULL at the top
--   name           VARCHAR                      its own name
--   class          VARCHAR                      its class, where known; range for a user range
--   path           VARCHAR                      its whole name, with those around it
--   depth          INTEGER                      modules around it
--   layer          INTEGER                      number of the layer that it is, or is in
--   source         VARCHAR                      tk (a qualified name, of a range or on a replayed kernel), nn.Module, range or frame
--   rollup_path    VARCHAR                      path with the numbers of layers replaced by *; the same in every layer
--   position       INTEGER                      place in the tree read from the top, in the order of the calls
--   last_position  INTEGER                      place of the last module inside of it: those inside are between the two
-- Invariant: position <= last_position
-- Invariant: depth = 0 OR parent_id IS NOT NULL

SELECT
    trace_id::INTEGER AS trace_id,
    module_id::INTEGER AS module_id,
    parent_id::INTEGER AS parent_id,
    name, class, path,
    depth::INTEGER AS depth,
    layer::INTEGER AS layer,
    source, rollup_path,
    position::INTEGER AS position,
    last_position::INTEGER AS last_position
FROM scratch.walked_module
WHERE number = module_id
ORDER BY trace_id, module_id
