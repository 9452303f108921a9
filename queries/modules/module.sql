-- Modules of each trace, as a tree.
-- Rows are instances of nn.Module. Their name is the qualified name in ranges, or else Kineto's class name and counter.
-- For engines whose layers are not nn.Modules, the stages of a layer are modules (source `frame`). User ranges serve as
-- modules for work outside modules.
--
-- Kind:     table
-- Columns:
--   trace_id       INTEGER -> trace
--   module_id      INTEGER                      module number within the trace
--   parent_id      INTEGER -> module.module_id  enclosing module; NULL at the top
--   name           VARCHAR                      module name
--   class          VARCHAR                      module class, if known; range for a user range
--   path           VARCHAR                      qualified name, including enclosing modules
--   depth          INTEGER
--   layer          INTEGER                      layer number of the module or of the layer around it
--   source         VARCHAR                      source of the name: tk (tracekit's range, or annotation of a replayed kernel), nn.Module, range, or frame
--   rollup_path    VARCHAR                      path with layer numbers replaced by *
--   position       INTEGER                      position in the tree, depth first, in call order
--   last_position  INTEGER                      position of the last descendant of the module
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
