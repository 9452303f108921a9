-- How many operations and how many bytes does an op need at least, going by its shapes?
-- op_costs('relation') knows the ops of macro op_forms; the rest come back with a reason. Bytes are ideal: every input
-- is read once and every output written once, from memory. Operations are counted as follows.
--   gemm         2 M N K, times the batch; of grouped GEMMs M is the rows of all groups
--   attention    2 for each pair of a query and a key, head and element of a head, in Q K' and in P V; backward 2.5
--                times that; causal attention counts the pairs that it keeps, aligned at the last query
--   conv         2 for each element of the output, input channel of its group and element of the kernel; of a
--                transposed one, for each element of the input and output channel of its group
--   others       the factor of macro op_forms for each element: of the output, for reductions of the input
-- An op that is made of others (aten::linear of aten::addmm) is not counted: they are. Copies do not
-- count as such; the copy of a bias does not make an addmm, nor what is added inside of it a convolution. Shapes that tell more than 2^53 operations, elements or
-- bytes are no shapes: no device does that much in one op, and no DOUBLE counts it exactly.
--
-- Kind:     function
-- Params:
--   relation  VARCHAR  name of a relation of ops with trace_id, op_id, name, args, pid, tid, ts_ns, end_ns
-- Columns:
--   trace_id     INTEGER  the trace
--   op_id        BIGINT   the op
--   op_class     VARCHAR  gemm, attention, conv, softmax, norm, embedding, optimizer, elementwise, reduction, layout;
--                         NULL for an op that is not counted
--   m            BIGINT   rows of the product
--   n            BIGINT   its columns
--   k            BIGINT   length of the sums
--   batch        BIGINT   products
--   layout       VARCHAR  of A and B: N row by row, T column by column in memory, - neither; where known
--   dtype        VARCHAR  type of the operands
--   flops        BIGINT   operations
--   bytes        BIGINT   bytes read and written
--   reason       VARCHAR  why flops or bytes is not known; NULL where both are

CREATE OR REPLACE MACRO op_costs(relation) AS TABLE (
    WITH asked AS (
        SELECT
            trace_id, op_id, name, pid, tid, ts_ns, end_ns,
            json_extract_string(
                args,
                [
                    '$."Input Dims"', '$."Input type"', '$."Concrete Inputs"', '$."Input Strides"'
                ]
            ) AS said
        FROM query_table(relation)
    ),

    -- Everything below is worked out once for ops that are the same.
    signature AS (
        SELECT DISTINCT name, said
        FROM asked
    ),

    read AS (
        SELECT
            s.name, s.said,
            f.* EXCLUDE (name),
            -- A file may say anything there; what is no list tells nothing.
            try_cast(try_cast(said[1] AS JSON) AS VARCHAR[]) AS dims,
            try_cast(try_cast(said[2] AS JSON) AS VARCHAR[]) AS types,
            list_transform(types, LAMBDA type: dtype_of(type)) AS dtypes,
            try_cast(try_cast(said[3] AS JSON) AS VARCHAR[]) AS vals,
            try_cast(try_cast(said[4] AS JSON) AS VARCHAR[]) AS strides
        FROM signature AS s
        LEFT JOIN op_forms() AS f ON s.name = f.name
    ),

    -- Of each argument: its shape if it is a tensor, its elements (also of a list of tensors), its bytes.
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
            -- The elements of the output are as wide as the widest tensor that has dimensions: a number is none.
            coalesce(
                list_max(
                    list_transform(
                        list_zip(dims, dtypes),
                        LAMBDA pair: if(pair[1] = '[]', NULL, dtype_bytes(pair[2]))
                    )
                ),
                list_max(list_transform(dtypes, LAMBDA dtype: dtype_bytes(dtype)))
            ) AS out_size
        FROM read
    ),

    weighed AS (
        SELECT
            *,
            try(list_transform(list_zip(nelems, sizes), LAMBDA pair: pair[1] * pair[2])) AS weights,
            shapes[a] AS sa,
            shapes[b] AS sb,
            shapes[c] AS sc,
            -- The shape to which the tensors are broadcast.
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

    -- A product is A (m, k) by B (k, n), batch times; sequences of q queries and k keys in attention.
    measured AS (
        SELECT
            *,
            try(
                CASE
                    WHEN NOT is_gemm(op_class) THEN NULL
                    WHEN form = 'matmul' AND len(sa) = 1 THEN 1
                    WHEN form IN ('linear', 'matmul', 'grouped') AND (len(sb) <= 2 OR len(sa) = 2)
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
            if(heads = 'bshd', -3, -2) AS at_seq,
            if(form = 'attention', vals[causal] IN ('True', '1', '2'), FALSE) AS is_causal,
            form IN ('attention', 'paged')
            AND seqs IS NOT NULL
            AND coalesce(dims[seqs], '[]') <> '[]' AS is_packed,
            -- Elements that a reduction leaves; NULL where it says no dimensions.
            try(
                nelems[a] // list_product(
                    list_transform(
                        try_cast(if(vals[b] LIKE '[%', vals[b], '[' || vals[b] || ']') AS BIGINT[]),
                        LAMBDA dim: sa[if(dim < 0, dim, dim + 1)]
                    )
                )::BIGINT
            ) AS left_nelems,
            -- Sizes of the output of a convolution, from padding, stride and dilation; of a transposed one, from these
            -- behind its output_padding, and groups.
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
                                    WHEN sa[at_seq] <= sb[at_seq]
                                        THEN
                                            sa[at_seq] * sb[at_seq]
                                            - sa[at_seq] * (sa[at_seq] - 1) // 2
                                    ELSE sb[at_seq] * (sb[at_seq] + 1) // 2
                                END
                        WHEN form IN ('conv', 'conv_strided')
                            THEN 2 * conv_nelems * shape_nelems(sb[2:])
                        WHEN form = 'conv_transposed' THEN 2 * nelems[a] * shape_nelems(sb[2:])
                        WHEN form = 'conv_backward'
                            THEN
                                2 * nelems[if(vals[8] = 'True', 2, 1)] * shape_nelems(sb[2:])
                                * len(
                                    regexp_extract_all(
                                        regexp_extract(vals[c], '^\[\w+, \w+'), 'True'
                                    )
                                )
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
                        -- Gradients of input and weight are as large as these.
                        WHEN 'conv_backward' THEN 2 * list_sum(weights) - weights[1]
                        WHEN 'attention'
                            THEN
                                if(
                                    factor = 1,
                                    weights[a] + weights[b] + weights[c]
                                    + shape_nelems(sa) // sa[-1] * sc[-1] * sizes[a],
                                    -- Reads query, key, value, output and its gradient; writes three gradients.
                                    2 * (weights[a] + weights[b] + weights[c])
                                    + 2 * (shape_nelems(sa) // sa[-1] * sc[-1] * sizes[a])
                                )
                        WHEN 'like' THEN list_sum(weights) + weights[a]
                        WHEN 'into' THEN list_sum(weights)
                        WHEN 'in_place' THEN list_sum(weights) + 2 * weights[a]
                        WHEN 'elementwise' THEN list_sum(weights[:b]) + out_nelems * out_size
                        WHEN 'compare' THEN list_sum(weights[:b]) + out_nelems
                        WHEN 'reduction' THEN weights[a] + coalesce(left_nelems, 1) * sizes[a]
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
                            list_sum(weights) + m * n * batch * CASE
                                -- What it is to write into may be the last argument.
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
                if(abs(flops) < 9007199254740992, flops, NULL) AS flops,
                if(abs(bytes) < 9007199254740992, bytes, NULL) AS bytes
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
            asked.* EXCLUDE (said),
            c.* EXCLUDE (name, said),
            c.said[1] IS NOT NULL AS has_shapes,
            coalesce(
                NOT moves_only(c.op_class)
                AND next_start_ns(
                    (
                        asked.trace_id, asked.pid, asked.tid,
                        CASE
                            WHEN has_flops(c.op_class) THEN 2
                            WHEN NOT moves_only(c.op_class) THEN 1
                        END
                    ),
                    asked.ts_ns,
                    (-asked.end_ns, asked.op_id)
                ) < asked.end_ns,
                FALSE
            ) AS is_made_of_others
        FROM asked
        INNER JOIN layed AS c
            ON asked.name = c.name AND asked.said IS NOT DISTINCT FROM c.said
    )

    SELECT
        trace_id, op_id,
        if(is_made_of_others, NULL, op_class) AS op_class,
        m, n, k, batch, layout, dtype,
        if(is_made_of_others, NULL, flops) AS flops,
        if(is_made_of_others, NULL, bytes) AS bytes,
        CASE
            WHEN op_class IS NULL THEN 'its operations are not known'
            WHEN is_made_of_others THEN 'it is made of other ops'
            WHEN NOT has_shapes THEN 'its shapes were not recorded'
            WHEN is_packed THEN 'its sequences are packed, and their lengths not in the shapes'
            WHEN flops IS NULL THEN 'its shapes do not tell its operations'
            WHEN bytes IS NULL THEN 'its shapes and types do not tell its bytes'
        END AS reason
    FROM nested
);
