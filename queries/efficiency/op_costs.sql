-- Minimum FLOPs and bytes of ops, from their shapes: op_costs('relation').
-- GEMM: 2 M N K × batch (grouped: M is the rows of all groups). Attention: 2 per query-key pair, head, and element in
-- each of QK' and PV, times 2.5 for backward; causal attention and its windows count only unmasked pairs. Convolution: 2 per output
-- element, input channel, and kernel element. Other ops: the factor in `op_forms` per element. Bytes are ideal: each
-- input is read once, elements of expanded tensors too, and each output written once, except statistics per row.
-- Composite ops, copies inside composite ops, and values above 2^53 (inexact in a DOUBLE) are not counted.
--
-- Kind:     function
-- Params:
--   relation  VARCHAR  relation of ops with trace_id, op_id, name, args, pid, tid, ts_ns, end_ns
-- Columns:
--   trace_id  INTEGER
--   op_id     BIGINT   op
--   op_class  VARCHAR  gemm, attention, conv, softmax, norm, embedding, optimizer, elementwise, reduction, layout; NULL if not counted
--   m BIGINT, n BIGINT, k BIGINT
--   batch     BIGINT   number of GEMMs
--   layout    VARCHAR  memory order of A and B (N row-major, T column-major, - neither); NULL if unknown
--   dtype VARCHAR, flops BIGINT
--   bytes     BIGINT   bytes read and written
--   reason    VARCHAR  why flops or bytes are unknown; else NULL

-- Unmasked pairs of queries and keys if the last query sees all keys, and each earlier query one key less.
CREATE OR REPLACE MACRO causal_pairs(query_count, key_count) AS
least(query_count, key_count) * key_count
- least(query_count, key_count) * (least(query_count, key_count) - 1) // 2;

CREATE OR REPLACE MACRO op_costs(relation) AS TABLE (
    WITH input_op AS (
        SELECT
            trace_id, op_id, name, pid, tid, ts_ns, end_ns,
            json_extract_string(
                args,
                [
                    '$."Input Dims"', '$."Input type"', '$."Concrete Inputs"', '$."Input Strides"'
                ]
            ) AS texts
        FROM query_table(relation)
    ),

    -- Compute the costs once per distinct signature.
    signature AS (
        SELECT DISTINCT name, texts
        FROM input_op
    ),

    parsed_signature AS (
        SELECT
            s.name, s.texts,
            f.* EXCLUDE (name),
            -- Treat malformed lists in the file as unknown.
            try_cast(try_cast(texts[1] AS JSON) AS VARCHAR[]) AS dims,
            try_cast(try_cast(texts[2] AS JSON) AS VARCHAR[]) AS types,
            list_transform(types, LAMBDA type: dtype_of(type)) AS dtypes,
            s.name IN ('aten::max', 'aten::min') AND dtypes[2] IS NOT NULL AS is_of_two,
            try_cast(try_cast(texts[3] AS JSON) AS VARCHAR[]) AS vals,
            try_cast(try_cast(texts[4] AS JSON) AS VARCHAR[]) AS strides
        FROM signature AS s
        LEFT JOIN op_forms() AS f ON s.name = f.name
    ),

    -- max and min of two tensors are element-wise.
    formed AS (
        SELECT
            * REPLACE (
                if(is_of_two, 'elementwise', op_class) AS op_class,
                if(is_of_two, 'elementwise', form) AS form
            )
        FROM parsed_signature
    ),

    -- Shape, number of elements (also of tensor lists), and bytes of each argument.
    shaped AS (
        SELECT
            *,
            coalesce(
                dtypes[a],
                list_filter(
                    list_zip(dtypes, dims), LAMBDA pair: pair[1] IS NOT NULL AND pair[2] <> '[]'
                )[1][1],
                dtypes[1]
            ) AS dtype,
            list_transform(
                list_zip(dims, dtypes),
                LAMBDA pair: if(pair[2] IS NULL, NULL, try_cast(pair[1] AS BIGINT[]))
            ) AS shapes,
            try(
                shapes_nelems(
                    list_transform(
                        list_zip(dims, dtypes, types),
                        LAMBDA one: CASE
                            WHEN one[2] IS NOT NULL THEN one[1]
                            WHEN one[3] = 'TensorList' AND one[1] <> '[]' THEN one[1]
                        END
                    )
                )
            ) AS nelems,
            list_transform(dtypes, LAMBDA dtype: dtype_bytes(dtype)) AS sizes,
            -- An output element is as wide as the widest input tensor that has dimensions; scalars
            -- do not count. An op in place writes its first input.
            coalesce(
                if(name LIKE '%\_' ESCAPE '\', dtype_bytes(dtypes[1]), NULL),
                list_max(
                    list_transform(
                        list_zip(dims, dtypes),
                        LAMBDA pair: if(pair[1] = '[]', NULL, dtype_bytes(pair[2]))
                    )
                ),
                list_max(list_transform(dtypes, LAMBDA dtype: dtype_bytes(dtype)))
            ) AS out_size
        FROM formed
    ),

    weighed AS (
        SELECT
            *,
            -- An expanded dimension has stride 0.
            try(
                list_transform(
                    list_zip(nelems, sizes, shapes, strides),
                    LAMBDA one: one[2] * (
                        one[1] // coalesce(
                            list_product(
                                list_transform(
                                    list_zip(one[3], try_cast(one[4] AS BIGINT[])),
                                    LAMBDA dim: if(dim[2] = 0, greatest(dim[1], 1), 1)
                                )
                            ), 1
                        )::BIGINT
                    )
                )
            ) AS weights,
            -- Number of the argument with the dense bias of attention.
            CASE
                WHEN
                    form <> 'attention'
                    OR NOT regexp_matches(name, 'efficient|cudnn|for_cpu|:scaled_dot_product')
                    THEN NULL
                WHEN regexp_matches(name, 'cudnn.*backward') THEN 9
                WHEN contains(name, 'for_cpu') THEN if(factor = 1, 6, 9)
                ELSE c + 1
            END AS bias,
            shapes[a] AS sa,
            shapes[b] AS sb,
            shapes[c] AS sc,
            -- Broadcast shape of the tensors.
            try(
                shape_nelems(
                    list_transform(
                        range(1, 1 + list_max(list_transform(shapes, LAMBDA dims: len(dims)))),
                        LAMBDA i: list_max(
                            list_transform(
                                shapes,
                                LAMBDA dims: if(i > len(dims), NULL, dims[len(dims) - i + 1])
                            )
                        )
                    )
                )
            ) AS out_nelems
        FROM shaped
    ),

    -- GEMM: A (m, k) × B (k, n), batch times. Attention: q queries, k keys.
    measured AS (
        SELECT
            *,
            try(
                CASE
                    WHEN NOT is_gemm(op_class) THEN NULL
                    WHEN form = 'matmul' AND len(sa) = 1 THEN 1
                    WHEN form IN ('linear', 'matmul') AND (len(sb) <= 2 OR len(sa) = 2)
                        THEN shape_nelems(sa[:-2])
                    ELSE sa[-2]
                END
            ) AS m,
            CASE
                WHEN NOT is_gemm(op_class) THEN NULL
                WHEN len(sb) = 1 THEN 1
                WHEN form = 'linear' THEN sb[-2]
                ELSE sb[-1]
            END AS n,
            if(is_gemm(op_class), sa[-1], NULL) AS k,
            if(is_gemm(op_class), if(form = 'linear' OR len(sb) = 1, sb[-1], sb[-2]), NULL) AS kb,
            -- A grouped GEMM of two matrices computes one matrix per group.
            if(form = 'grouped' AND len(sa) = 2 AND len(sb) = 2, nelems[c], 1) AS out_count,
            try(
                CASE
                    WHEN NOT is_gemm(op_class) THEN NULL
                    WHEN form = 'bmm' OR (form = 'grouped' AND len(sa) = 3 AND len(sb) = 3)
                        THEN sa[1]
                    WHEN form = 'matmul' AND len(sb) > 2
                        THEN greatest(shape_nelems(sa[:-3]), shape_nelems(sb[:-3]))
                    ELSE 1
                END
            ) AS batch,
            -- Gradients of input and weight that a convolution computes.
            len(regexp_extract_all(regexp_extract(vals[c], '^\[\w+, \w+'), 'True')) AS gradients,
            if(heads = 'bshd', -3, -2) AS at_seq,
            if(form = 'attention', vals[causal] IN ('True', '1', '2'), FALSE) AS is_causal,
            -- Number of keys that the last query of causal attention in a window does not see.
            try(
                if(
                    name NOT LIKE 'aten::%' AND vals[causal + 1] NOT LIKE '-%',
                    greatest(sb[at_seq] - 1 - try_cast(vals[causal + 1] AS BIGINT), 0),
                    NULL
                )
            ) AS beyond_window,
            form IN ('attention', 'paged')
            AND seqs IS NOT NULL
            AND coalesce(dims[seqs], '[]') <> '[]' AS is_packed,
            -- Number of elements after a reduction; NULL if the reduced dimensions are unknown.
            try(
                nelems[a] // list_product(
                    list_transform(
                        try_cast(if(vals[b] LIKE '[%', vals[b], '[' || vals[b] || ']') AS BIGINT[]),
                        LAMBDA dim: sa[if(dim < 0, dim, dim + 1)]
                    )
                )::BIGINT
            ) AS left_nelems,
            -- Output size of a convolution from padding, stride, and dilation. For a transposed
            -- convolution, also from output_padding and groups.
            try(
                CASE
                    WHEN form = 'conv_transposed'
                        THEN
                            sa[1] * sb[2] * try_cast(vals[c + 4] AS BIGINT) * shape_nelems(
                                list_transform(
                                    list_zip(
                                        sa[3:],
                                        sb[3:],
                                        try_cast(vals[c] AS BIGINT[]),
                                        try_cast(vals[c + 1] AS BIGINT[]),
                                        try_cast(vals[c + 2] AS BIGINT[]),
                                        try_cast(vals[c + 3] AS BIGINT[])
                                    ),
                                    LAMBDA one: (one[1] - 1) * one[5] - 2 * one[3]
                                    + one[6] * (one[2] - 1) + one[4] + 1
                                )
                            )
                    WHEN form IN ('conv', 'conv_strided')
                        THEN
                            sa[1] * sb[1] * shape_nelems(
                                list_transform(
                                    list_zip(
                                        sa[3:],
                                        sb[3:],
                                        try_cast(vals[if(form = 'conv', c, c + 1)] AS BIGINT[]),
                                        try_cast(vals[if(form = 'conv', c + 1, c)] AS BIGINT[]),
                                        try_cast(vals[c + 2] AS BIGINT[])
                                    ),
                                    LAMBDA one: (
                                        one[1] + 2 * one[3] - coalesce(one[5], 1) * (one[2] - 1) - 1
                                    ) // one[4] + 1
                                )
                            )
                END
            ) AS conv_nelems
        FROM weighed
    ),

    counted AS (
        SELECT
            *,
            try(
                (
                    CASE
                        WHEN is_gemm(op_class) THEN if(k = kb, 2 * m * n * k * batch, NULL)
                        WHEN is_packed THEN NULL
                        WHEN form = 'attention'
                            THEN
                                factor * 2 * shape_nelems(sa)
                                // sa[at_seq]
                                // sa[-1] * (sa[-1] + sc[-1])
                                * CASE
                                    WHEN NOT is_causal THEN sa[at_seq] * sb[at_seq]
                                    -- The mask begins at the first query and key.
                                    WHEN
                                        name LIKE 'aten::%'
                                        AND name NOT LIKE 'aten::_flash%'
                                        AND vals[causal] <> '2'
                                        THEN causal_pairs(sb[at_seq], sa[at_seq])
                                    ELSE
                                        causal_pairs(sa[at_seq], sb[at_seq])
                                        - causal_pairs(sa[at_seq], coalesce(beyond_window, 0))
                                END
                        WHEN form IN ('conv', 'conv_strided')
                            THEN 2 * conv_nelems * shape_nelems(sb[2:])
                        WHEN form = 'conv_transposed' THEN 2 * nelems[a] * shape_nelems(sb[2:])
                        WHEN form = 'conv_backward'
                            THEN
                                2 * nelems[if(vals[8] = 'True', 2, 1)] * shape_nelems(sb[2:])
                                * gradients
                        WHEN form IN ('elementwise', 'compare') THEN factor * out_nelems
                        WHEN form IN ('embedding', 'embedding_backward') THEN 0
                        ELSE factor * nelems[a]
                    END
                )::BIGINT
            ) AS flops,
            try(
                (
                    CASE if(form IN ('conv_strided', 'conv_transposed'), 'conv', form)
                        WHEN 'conv' THEN list_sum(weights) + conv_nelems * sizes[a]
                        -- A gradient of the input reads the weight, and the other way around.
                        WHEN 'conv_backward' THEN weights[1] + gradients * (weights[2] + weights[3])
                        WHEN 'attention'
                            THEN
                                coalesce(weights[bias], 0)
                                + if(
                                    vals[16] = 'True' OR vals[11] LIKE '%, True]',
                                    nelems[bias] * sizes[bias], 0
                                )
                                + if(
                                    factor = 1,
                                    weights[a] + weights[b] + weights[c]
                                    + shape_nelems(sa) // sa[-1] * sc[-1] * sizes[a],
                                    -- The backward pass reads query, key, value, output, and the
                                    -- gradient of the output, and writes three gradients.
                                    weights[a] + weights[b] + weights[c]
                                    + list_sum(list_transform(
                                        [a, b, c], LAMBDA i: nelems[i] * sizes[i]
                                    ))
                                    + 2 * (shape_nelems(sa) // sa[-1] * sc[-1] * sizes[a])
                                )
                        WHEN 'like' THEN list_sum(weights) + nelems[a] * sizes[a]
                        WHEN 'softmax'
                            THEN
                                list_sum(weights) + nelems[a] * CASE
                                    WHEN vals[3] = 'True' THEN 4
                                    WHEN vals[4] IN ('5', '15') THEN 2
                                    ELSE sizes[a]
                                END
                        WHEN 'into' THEN list_sum(weights)
                        WHEN 'in_place' THEN list_sum(weights) + 2 * weights[a]
                        WHEN 'elementwise' THEN list_sum(weights[:b]) + out_nelems * out_size
                        WHEN 'dropout' THEN weights[a] + nelems[a] * (sizes[a] + 1)
                        WHEN 'compare' THEN list_sum(weights[:b]) + out_nelems
                        WHEN 'reduction'
                            THEN
                                weights[a] + coalesce(left_nelems, 1) * CASE
                                    WHEN regexp_matches(name, ':(argm|count_nonzero)') THEN 8
                                    WHEN name IN ('aten::any', 'aten::all') THEN 1
                                    WHEN name IN ('aten::max', 'aten::min')
                                        THEN sizes[a] + if(left_nelems IS NULL, 0, 8)
                                    ELSE sizes[a]
                                END
                        WHEN 'copy' THEN weights[a] + weights[b]
                        WHEN 'fill' THEN weights[a]
                        WHEN 'embedding' THEN 2 * nelems[b] * sa[-1] * sizes[a] + weights[b]
                        WHEN 'embedding_backward'
                            THEN
                                weights[a] + weights[b]
                                + try_cast(vals[c] AS BIGINT) * sa[-1] * sizes[a]
                        WHEN 'optimizer' THEN NULL
                        WHEN 'paged' THEN NULL
                        ELSE
                            list_sum(weights) + m * n * batch * out_count * CASE
                                -- An out argument after B already counts among the arguments.
                                WHEN list_contains(shapes[b + 1:], sa[:-2] || [n]) THEN 0
                                WHEN dtype = 'fp8' THEN 2
                                WHEN dtype = 'int8' THEN 4
                                ELSE sizes[a]
                            END
                    END
                )::BIGINT
            ) AS bytes
        FROM measured
    ),

    layed AS (
        SELECT
            * REPLACE (
                if(flops BETWEEN 0 AND 9007199254740991, flops, NULL) AS flops,
                if(bytes BETWEEN 0 AND 9007199254740991, bytes, NULL) AS bytes
            ),
            if(
                is_gemm(op_class) AND strides IS NOT NULL,
                array_to_string(
                    list_transform(
                        [
                            try_cast(strides[a] AS BIGINT[]),
                            if(
                                form = 'linear',
                                list_reverse(try_cast(strides[b] AS BIGINT[])),
                                try_cast(strides[b] AS BIGINT[])
                            )
                        ],
                        LAMBDA stride: CASE
                            WHEN stride[-1] = 1 THEN 'N'
                            WHEN stride[-2] = 1 THEN 'T'
                            ELSE '-'
                        END
                    ),
                    ''
                ),
                NULL
            ) AS layout
        FROM counted
    ),

    nested AS (
        SELECT
            input_op.* EXCLUDE (texts),
            c.* EXCLUDE (name, texts),
            c.texts[1] IS NOT NULL AS has_shapes,
            coalesce(
                NOT moves_only(c.op_class)
                AND next_start_ns(
                    (
                        input_op.trace_id, input_op.pid, input_op.tid,
                        CASE
                            WHEN has_flops(c.op_class) THEN 2
                            WHEN NOT moves_only(c.op_class) THEN 1
                        END
                    ),
                    input_op.ts_ns,
                    (-input_op.end_ns, input_op.op_id)
                ) < input_op.end_ns,
                FALSE
            ) AS has_others,
            -- The gradient of a softmax consists of a product, which is another op, and the rest.
            has_others AND input_op.name <> 'aten::_softmax_backward_data' AS is_made_of_others
        FROM input_op
        INNER JOIN layed AS c
            ON input_op.name = c.name AND input_op.texts IS NOT DISTINCT FROM c.texts
    )

    SELECT
        trace_id, op_id,
        if(is_made_of_others, NULL, op_class) AS op_class,
        m, n, k, batch, layout, dtype,
        CASE
            WHEN is_made_of_others THEN NULL
            WHEN has_others THEN flops * 3 // 4
            ELSE flops
        END AS flops,
        if(is_made_of_others, NULL, bytes) AS bytes,
        CASE
            WHEN op_class IS NULL THEN 'its operations are unknown'
            WHEN is_made_of_others THEN 'it consists of other ops'
            WHEN NOT has_shapes THEN 'its shapes were not recorded'
            WHEN is_packed THEN 'its sequences are packed, without their lengths'
            WHEN flops IS NULL THEN 'its operations do not follow from its shapes'
            WHEN bytes IS NULL THEN 'its bytes do not follow from its shapes and types'
        END AS reason
    FROM nested
);
