-- How many operations and how many bytes does an op need at least, going by its shapes?
-- op_costs('relation') knows the ops of the list below; the rest come back with a reason. Bytes are ideal: every input
-- is read once and every output written once, from memory. Operations are counted as follows.
--   gemm         2 M N K, times the batch; of grouped GEMMs M is the rows of all groups
--   attention    2 for each pair of a query and a key, head and element of a head, in Q K' and in P V; backward 2.5
--                times that; causal attention counts the pairs that it keeps, aligned at the last query
--   conv         2 for each element of the output, input channel of its group and element of the kernel
--   others       the factor of the list for each element: of the output, for reductions of the input
-- An op that is made of other ops of the list (aten::linear of aten::addmm) is not counted: they are. Copies do not
-- count as such; the copy of a bias does not make an addmm.
--
-- Kind:     macro
-- Requires: tensor
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
    -- One line for ops alike; a name without a namespace is of aten. Arguments are numbered from 1.
    --   first second third  the arguments that matter: A and B of a gemm; query, key, value; what is read and written
    --   heads               order of the dimensions of query, key and value
    --   causal seqs         the argument that says whether attention is causal; that with lengths of sequences, which
    --                       must be absent: how many pairs there are is not in the shapes then
    --   factor              operations for each element
    WITH listed AS (
        SELECT regexp_split_to_array(line, ' +') AS field
        FROM (
            SELECT
                unnest(
                    string_split(
                        trim(
                            '
gemm        mm                 1  2  -  -     -       -     -      mm _scaled_mm _int_mm
gemm        mm                 2  3  -  -     -       -     -      addmm addmm_ _addmm_activation _C::cutlass_scaled_mm
gemm        bmm                1  2  -  -     -       -     -      bmm
gemm        bmm                2  3  -  -     -       -     -      baddbmm baddbmm_
gemm        linear             1  2  -  -     -       -     -      linear mkldnn_linear mkldnn::_linear_pointwise
gemm        linear             1  2  -  -     -       -     -      vllm::rocm_unquantized_gemm aiter::gemm_a16w16
gemm        matmul             1  2  -  -     -       -     -      matmul mv
gemm        matmul             2  3  -  -     -       -     -      addmv addmv_
gemm        grouped            1  2  -  -     -       -     -      _grouped_mm _scaled_grouped_mm
attention   attention          1  2  3  bhsd  5       -     1      _scaled_dot_product_flash_attention
attention   attention          1  2  3  bhsd  5       -     1      _scaled_dot_product_flash_attention_for_cpu
attention   attention          1  2  3  bhsd  7       -     1      _scaled_dot_product_efficient_attention
attention   attention          1  2  3  bhsd  7       -     1      _scaled_dot_product_cudnn_attention
attention   attention          1  2  3  bhsd  6       -     1      scaled_dot_product_attention
attention   attention          1  2  3  bshd  9       4     1      _flash_attention_forward
attention   attention          1  2  3  bshd  10      5     1      _efficient_attention_forward
attention   attention          1  2  3  bhsd  11      5     1      _cudnn_attention_forward
attention   attention          1  2  3  bshd  6       -     1      flash_attn::_flash_attn_forward
attention   attention          2  3  4  bhsd  8       -     2.5    _scaled_dot_product_flash_attention_for_cpu_backward
attention   attention          2  3  4  bshd  12      7     2.5    _flash_attention_backward
attention   attention          2  3  4  bhsd  12      7     2.5    _scaled_dot_product_flash_attention_backward
attention   attention          2  3  4  bshd  15      7     2.5    _efficient_attention_backward
attention   attention          2  3  4  bhsd  12      -     2.5    _scaled_dot_product_efficient_attention_backward
attention   attention          2  3  4  bhsd  15      10    2.5    _scaled_dot_product_cudnn_attention_backward
attention   attention          2  3  4  bshd  12      -     2.5    flash_attn::_flash_attn_backward
conv        conv               1  2  3  -     -       -     -      cudnn_convolution
conv        conv               1  2  4  -     -       -     -      miopen_convolution mkldnn_convolution
conv        conv_backward      1  3  11 -     -       -     -      convolution_backward convolution_backward_overrideable
softmax     like               1  -  -  -     -       -     5      _softmax _log_softmax
softmax     like               1  -  -  -     -       -     4      _softmax_backward_data _log_softmax_backward_data
norm        like               1  -  -  -     -       -     5      native_layer_norm native_batch_norm cudnn_batch_norm
norm        like               1  -  -  -     -       -     5      miopen_batch_norm native_group_norm _fused_rms_norm rms_norm
norm        like               1  -  -  -     -       -     8      native_layer_norm_backward native_batch_norm_backward
norm        like               1  -  -  -     -       -     8      cudnn_batch_norm_backward miopen_batch_norm_backward
norm        like               1  -  -  -     -       -     8      native_group_norm_backward _fused_rms_norm_backward
norm        into               1  2  -  -     -       -     4      _C::rms_norm
norm        in_place           2  -  -  -     -       -     5      _C::fused_add_rms_norm
embedding   embedding          1  2  -  -     -       -     -      embedding
embedding   embedding_backward 1  2  3  -     -       -     -      embedding_dense_backward
optimizer   optimizer          1  -  -  -     -       -     15     _fused_adamw_ _fused_adam_
optimizer   optimizer          1  -  -  -     -       -     4      _fused_sgd_
optimizer   optimizer          1  -  -  -     -       -     1      _foreach_add_ _foreach_mul_ _foreach_div_ _foreach_sub_
optimizer   optimizer          1  -  -  -     -       -     1      _foreach_sqrt_ _foreach_neg_ _foreach_sqrt _foreach_add
optimizer   optimizer          1  -  -  -     -       -     1      _foreach_mul _foreach_div _foreach_pow
optimizer   optimizer          1  -  -  -     -       -     3      _foreach_lerp_ _foreach_addcmul_ _foreach_addcdiv_
optimizer   optimizer          1  -  -  -     -       -     2      _foreach_norm
elementwise elementwise        -  -  -  -     -       -     1      add add_ sub sub_ rsub mul mul_ div div_ neg neg_ pow pow_
elementwise elementwise        -  -  -  -     -       -     1      square rsqrt sqrt sqrt_ reciprocal exp exp_ log log2 erf
elementwise elementwise        -  -  -  -     -       -     1      sigmoid sigmoid_ silu silu_ gelu relu relu_ tanh tanh_ cos
elementwise elementwise        -  -  -  -     -       -     1      sin abs sign floor ceil round clamp clamp_ clamp_min
elementwise elementwise        -  -  -  -     -       -     1      clamp_min_ clamp_max where maximum minimum fmod remainder
elementwise elementwise        -  -  -  -     -       -     1      masked_fill masked_fill_ leaky_relu hardtanh
elementwise elementwise        -  -  -  -     -       -     3      threshold_backward sigmoid_backward tanh_backward addcmul
elementwise elementwise        -  -  -  -     -       -     3      addcmul_ addcdiv addcdiv_ lerp lerp_ softplus
elementwise elementwise        -  -  -  -     -       -     4      silu_backward gelu_backward native_dropout
elementwise elementwise        -  -  -  -     -       -     4      native_dropout_backward
elementwise compare            -  -  -  -     -       -     1      eq ne lt le gt ge logical_and logical_or logical_not
elementwise compare            -  -  -  -     -       -     1      bitwise_and bitwise_or bitwise_not isnan isinf
reduction   reduction          1  -  -  -     -       -     1      sum mean amax amin max min prod all any argmax argmin
reduction   reduction          1  -  -  -     -       -     1      linalg_vector_norm norm var std logsumexp count_nonzero
layout      copy               1  2  -  -     -       -     0      copy_
layout      fill               1  -  -  -     -       -     0      fill_ zero_
', chr(10)
                        ),
                        chr(10)
                    )
                ) AS line
        )
    ),

    form AS (
        SELECT
            if(op LIKE '%::%', op, 'aten::' || op) AS name,
            op_class,
            form,
            a,
            b,
            c,
            heads,
            causal,
            seqs,
            factor
        FROM (
            SELECT
                unnest(field[10:]) AS op,
                field[1] AS op_class,
                field[2] AS form,
                try_cast(field[3] AS INTEGER) AS a,
                try_cast(field[4] AS INTEGER) AS b,
                try_cast(field[5] AS INTEGER) AS c,
                field[6] AS heads,
                try_cast(field[7] AS INTEGER) AS causal,
                try_cast(field[8] AS INTEGER) AS seqs,
                try_cast(field[9] AS DOUBLE) AS factor
            FROM listed
        )
    ),

    asked AS (
        SELECT
            trace_id,
            op_id,
            name,
            pid,
            tid,
            ts_ns,
            end_ns,
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
        SELECT DISTINCT
            name,
            said
        FROM asked
    ),

    read AS (
        SELECT
            s.name,
            s.said,
            f.* EXCLUDE (name),
            said[1]::JSON::VARCHAR [] AS dims,
            said[2]::JSON::VARCHAR [] AS types,
            said[3]::JSON::VARCHAR [] AS vals,
            said[4]::JSON::VARCHAR [] AS strides
        FROM signature AS s
        LEFT JOIN form AS f ON s.name = f.name
    ),

    -- Of each argument: its shape if it is a tensor, its elements (also of a list of tensors), its bytes.
    shaped AS (
        SELECT
            *,
            dtype_of(types[coalesce(a, 1)]) AS dtype,
            list_transform(
                dims,
                lambda dim, i: if(dtype_of(types[i]) IS NULL, NULL, try_cast(dim AS BIGINT []))
            ) AS shapes,
            list_transform(
                dims,
                lambda dim, i: CASE
                    WHEN dtype_of(types[i]) IS NOT NULL THEN shapes_nelems([dim])[1]
                    WHEN types[i] = 'TensorList' AND dim <> '[]' THEN shapes_nelems([dim])[1]
                END
            ) AS nelems,
            list_transform(types, lambda type: dtype_bytes(dtype_of(type))) AS sizes
        FROM read
    ),

    weighed AS (
        SELECT
            *,
            list_transform(nelems, lambda count, i: count * sizes[i]) AS weights,
            shapes[a] AS sa,
            shapes[b] AS sb,
            shapes[c] AS sc,
            -- The shape to which the tensors are broadcast.
            list_reduce(
                list_transform(
                    range(1, 1 + list_max(list_transform(shapes, lambda dims: len(dims)))),
                    lambda i: list_max(list_transform(shapes, lambda dims: dims[len(dims) - i + 1]))
                ),
                lambda total, size: total * size,
                1::BIGINT
            ) AS out_nelems
        FROM shaped
    ),

    -- A product is A (m, k) by B (k, n), batch times; sequences of q queries and k keys in attention.
    measured AS (
        SELECT
            *,
            CASE
                WHEN op_class <> 'gemm' THEN NULL
                WHEN form = 'matmul' AND len(sa) = 1 THEN 1
                WHEN form IN ('linear', 'matmul', 'grouped') AND (len(sb) <= 2 OR len(sa) = 2)
                    THEN shape_nelems(sa[:-2])
                ELSE sa[-2]
            END AS m,
            CASE
                WHEN op_class <> 'gemm' THEN NULL
                WHEN len(sb) = 1 THEN 1
                WHEN form = 'linear' THEN sb[-2]
                ELSE sb[-1]
            END AS n,
            if(op_class = 'gemm', sa[-1], NULL) AS k,
            if(op_class = 'gemm', if(form = 'linear' OR len(sb) = 1, sb[-1], sb[-2]), NULL) AS kb,
            CASE
                WHEN op_class <> 'gemm' THEN NULL
                WHEN form = 'bmm' OR (form = 'grouped' AND len(sa) = 3 AND len(sb) = 3) THEN sa[1]
                WHEN form = 'matmul' AND len(sb) > 2
                    THEN greatest(shape_nelems(sa[:-3]), shape_nelems(sb[:-3]))
                ELSE 1
            END AS batch,
            if(heads = 'bshd', -3, -2) AS at_seq,
            if(form = 'attention', vals[causal] IN ('True', '1', '2'), FALSE) AS is_causal,
            form = 'attention' AND seqs IS NOT NULL AND coalesce(dims[seqs], '[]') <> '[]' AS is_packed,
            -- Sizes of the output of a convolution, from padding, stride and dilation.
            if(
                form = 'conv',
                list_reduce(
                    list_transform(
                        sb[3:],
                        lambda width, i: (
                            sa[i + 2] + 2 * try_cast(vals[c] AS BIGINT []) [i]
                            - try_cast(vals[c + 2] AS BIGINT []) [i] * (width - 1) - 1
                        ) // try_cast(vals[c + 1] AS BIGINT []) [i] + 1
                    ),
                    lambda total, size: total * size,
                    sa[1] * sb[1]
                ),
                NULL
            ) AS conv_nelems
        FROM weighed
    ),

    counted AS (
        SELECT
            *,
            (
                CASE
                    WHEN op_class = 'gemm' THEN if(k = kb, 2 * m * n * k * batch, NULL)
                    WHEN is_packed THEN NULL
                    WHEN form = 'attention'
                        THEN
                            factor * 2 * shape_nelems(sa) // sa[at_seq] // sa[-1] * (sa[-1] + sc[-1])
                            * CASE
                                WHEN NOT is_causal THEN sa[at_seq] * sb[at_seq]
                                WHEN sa[at_seq] <= sb[at_seq]
                                    THEN sa[at_seq] * sb[at_seq] - sa[at_seq] * (sa[at_seq] - 1) // 2
                                ELSE sb[at_seq] * (sb[at_seq] + 1) // 2
                            END
                    WHEN form = 'conv' THEN 2 * conv_nelems * shape_nelems(sb[2:])
                    WHEN form = 'conv_backward'
                        THEN
                            2 * nelems[1] * shape_nelems(sb[2:])
                            * len(regexp_extract_all(regexp_extract(vals[c], '^\[\w+, \w+'), 'True'))
                    WHEN form IN ('elementwise', 'compare') THEN factor * out_nelems
                    WHEN form IN ('embedding', 'embedding_backward') THEN 0
                    ELSE factor * nelems[a]
                END
            )::BIGINT AS flops,
            (
                CASE form
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
                    WHEN 'elementwise' THEN list_sum(weights) + out_nelems * list_max(sizes)
                    WHEN 'compare' THEN list_sum(weights) + out_nelems
                    WHEN 'reduction' THEN weights[a]
                    WHEN 'copy' THEN weights[a] + weights[b]
                    WHEN 'fill' THEN weights[a]
                    WHEN 'embedding' THEN 2 * nelems[b] * sa[-1] * sizes[a] + weights[b]
                    WHEN 'embedding_backward'
                        THEN
                            weights[a] + weights[b]
                            + try_cast(vals[c] AS BIGINT) * sa[-1] * sizes[a]
                    WHEN 'optimizer' THEN NULL
                    ELSE
                        list_sum(weights) + m * n * batch * CASE
                            WHEN dtype = 'fp8' THEN 2
                            WHEN dtype = 'int8' THEN 4
                            ELSE sizes[a]
                        END
                END
            )::BIGINT AS bytes
        FROM measured
    ),

    layed AS (
        SELECT
            *,
            if(
                op_class = 'gemm' AND strides IS NOT NULL,
                array_to_string(
                    list_transform(
                        [
                            try_cast(strides[a] AS BIGINT []),
                            if(
                                form = 'linear',
                                list_reverse(try_cast(strides[b] AS BIGINT [])),
                                try_cast(strides[b] AS BIGINT [])
                            )
                        ],
                        lambda stride: CASE
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
                c.op_class <> 'layout'
                AND lead(asked.ts_ns) OVER (
                    PARTITION BY
                        asked.trace_id, asked.pid, asked.tid, coalesce(c.op_class <> 'layout', FALSE)
                    ORDER BY asked.ts_ns, asked.end_ns DESC, asked.op_id
                ) < asked.end_ns,
                FALSE
            ) AS is_made_of_others
        FROM asked
        INNER JOIN layed AS c ON asked.name = c.name AND asked.said = c.said
    )

    SELECT
        trace_id,
        op_id,
        if(is_made_of_others, NULL, op_class) AS op_class,
        m,
        n,
        k,
        batch,
        layout,
        dtype,
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
