-- Kind of wait of a host call or range, by name; NULL if it is not a wait.
-- host_call_wait classifies runtime and driver calls (sync, copy, allocator). host_range_wait classifies ops, ranges,
-- and Python functions (data_loading, comm_wait, sync, lock). host_range_hands_over recognizes Python functions that
-- release a lock or put an item into a queue.
--
-- Kind:     function
-- Access:   private

CREATE OR REPLACE MACRO host_call_wait(name) AS
CASE
    -- Most calls are launches, so test for launches before any other pattern.
    WHEN contains(name, 'Launch') THEN NULL
    WHEN regexp_matches(name, '^(cuda|hip|cu)Memcpy.*Async') THEN 'copy'
    WHEN regexp_matches(
        name,
        '^(cuda|hip|cu)(Device|Stream|Event|Ctx)?Synchronize'
        '|^(ze|ur)[A-Za-z]*(Synchronize|Finish|EventWait)'
    ) THEN 'sync'
    WHEN regexp_matches(
        name,
        '^(cuda|hip|cu)Memcpy(2D|3D|HtoD|DtoH|DtoD|WithStream|ToSymbol|FromSymbol)?(_v2)?$'
    ) THEN 'sync'
    WHEN regexp_matches(
        name,
        '^(cuda|hip|cu)(Ext)?(Malloc|Free|Host(Alloc|Register|Unregister|Malloc|Free)'
        '|Mem(Alloc|Free|Create|Release|Map|Unmap|Address|SetAccess|PoolTrimTo))'
        '|^(ze|ur)(Mem|USM)[A-Za-z]*(Alloc|Free)'
    ) THEN 'allocator'
END;

CREATE OR REPLACE MACRO host_range_wait(category, name) AS
CASE
    WHEN is_python_call(category)
        THEN CASE
            WHEN contains(name, '/dataloader.py(') AND suffix(name, '): __next__')
                THEN 'data_loading'
            WHEN
                starts_with(name, '<built-in method wait of PyCapsule')
                OR starts_with(name, '<built-in method wait of pybind11_')
                OR starts_with(name, '<built-in method wait of torch._C._distributed')
                THEN 'comm_wait'
            WHEN
                starts_with(name, '<built-in method acquire of _')
                OR starts_with(name, '<built-in method get of _queue.')
                THEN 'lock'
        END
    WHEN is_op(category)
        THEN CASE
            WHEN starts_with(name, 'enumerate(DataLoader)') THEN 'data_loading'
            WHEN name IN ('aten::item', 'aten::_local_scalar_dense') THEN 'sync'
        END
    WHEN is_annotation(category)
        THEN CASE
            WHEN
                contains(name, 'DataLoader')
                OR regexp_matches(name, '^(tk/phase/data$|## ?data)')
                THEN 'data_loading'
            WHEN regexp_matches(name, '(?i)(^|[^a-z])wait\(\)|^## ?wait|barrier') THEN 'comm_wait'
        END
END;

CREATE OR REPLACE MACRO host_range_hands_over(category, name) AS (
    is_python_call(category)
    AND (
        starts_with(name, '<built-in method release of _thread.')
        OR starts_with(name, '<built-in method put of _queue.')
    )
);
