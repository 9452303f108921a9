-- Ops with known FLOPs and bytes, and the arguments that determine them.
-- Column form selects the formula of `op_costs`. Names without a namespace are aten ops. Arguments are numbered from 1.
--
-- Kind:     function
-- Access:   private
-- Columns:
--   name VARCHAR, op_class VARCHAR, form VARCHAR
--   a       INTEGER  number of the first relevant argument: A of a GEMM, query, or input
--   b       INTEGER  second: B of a GEMM; key; input or output of the forward op; or reduced dimensions; for element-wise ops, the last input
--   c       INTEGER  third: value, or padding of a convolution (stride for conv_strided); or ends of the groups of a GEMM
--   heads   VARCHAR  dimension order of query, key, and value: bhsd or bshd
--   causal  INTEGER  number of the argument that makes attention causal
--   seqs    INTEGER  number of the argument with sequence lengths; if set, shapes do not determine the number of query-key pairs
--   factor  DOUBLE   operations per element; for attention, FLOPs relative to the forward pass

CREATE OR REPLACE MACRO op_forms() AS TABLE (
    WITH line AS (
        SELECT
            unnest(
                string_split(
                    trim(
                        '
gemm        mm                 1  2  -  -     -       -     -      mm _scaled_mm _int_mm
gemm        mm                 2  3  -  -     -       -     -      addmm addmm_ _addmm_activation
gemm        into               2  3  -  -     -       -     -      _C::cutlass_scaled_mm
gemm        bmm                1  2  -  -     -       -     -      bmm
gemm        bmm                2  3  -  -     -       -     -      baddbmm baddbmm_
gemm        linear             1  2  -  -     -       -     -      linear mkldnn_linear mkldnn::_linear_pointwise
gemm        linear             1  2  -  -     -       -     -      vllm::rocm_unquantized_gemm aiter::gemm_a16w16
gemm        linear             1  2  -  -     -       -     -      aiter::gemm_a8w8_ck aiter::gemm_a8w8_blockscale_ck
gemm        linear             1  2  -  -     -       -     -      bitsandbytes::int8_linear_matmul
gemm        matmul             1  2  -  -     -       -     -      matmul mv
gemm        matmul             2  3  -  -     -       -     -      addmv addmv_
gemm        grouped            1  2  3  -     -       -     -      _grouped_mm
gemm        grouped            1  2  5  -     -       -     -      _scaled_grouped_mm
attention   attention          1  2  3  bhsd  5       -     1      _scaled_dot_product_flash_attention
attention   attention          1  2  3  bhsd  5       -     1      _scaled_dot_product_flash_attention_for_cpu
attention   attention          1  2  3  bhsd  7       -     1      _scaled_dot_product_efficient_attention
attention   attention          1  2  3  bhsd  7       -     1      _scaled_dot_product_cudnn_attention
attention   attention          1  2  3  bhsd  6       -     1      scaled_dot_product_attention
attention   attention          1  2  3  bshd  9       4     1      _flash_attention_forward
attention   attention          1  2  3  bshd  10      5     1      _efficient_attention_forward
attention   attention          1  2  3  bhsd  11      5     1      _cudnn_attention_forward
attention   attention          1  2  3  bshd  6       -     1      flash_attn::_flash_attn_forward
attention   attention          1  2  3  bshd  6       -     1      aiter::_flash_attn_forward aiter::mha_fwd
attention   attention          1  2  3  bshd  6       -     1      aiter::fmha_v3_fwd aiter::wrapper_fmha_v3_fwd
attention   attention          1  2  3  bshd  25      8     1      flash_attn_3::fwd
attention   attention          1  2  3  bshd  -       4     1      flash_attn::_flash_attn_varlen_forward
attention   paged              1  2  3  bshd  -       1     1      aiter::mha_batch_prefill
attention   paged              1  2  3  bshd  -       1     1      vllm::unified_attention_with_output
attention   attention          2  3  4  bhsd  8       -     2.5    _scaled_dot_product_flash_attention_for_cpu_backward
attention   attention          2  3  4  bshd  12      7     2.5    _flash_attention_backward
attention   attention          2  3  4  bhsd  12      7     2.5    _scaled_dot_product_flash_attention_backward
attention   attention          2  3  4  bshd  15      7     2.5    _efficient_attention_backward
attention   attention          2  3  4  bhsd  12      -     2.5    _scaled_dot_product_efficient_attention_backward
attention   attention          2  3  4  bhsd  15      10    2.5    _scaled_dot_product_cudnn_attention_backward
attention   attention          2  3  4  bhsd  15      10    2.5    _cudnn_attention_backward
attention   attention          2  3  4  bshd  12      -     2.5    flash_attn::_flash_attn_backward
attention   attention          2  3  4  bshd  12      -     2.5    aiter::_flash_attn_backward
attention   attention          2  3  4  bshd  9       -     2.5    aiter::mha_bwd
attention   attention          2  3  4  bshd  -       10    2.5    flash_attn::_flash_attn_varlen_backward
conv        conv               1  2  3  -     -       -     -      cudnn_convolution
conv        conv               1  2  4  -     -       -     -      miopen_convolution mkldnn_convolution
conv        conv               1  2  4  -     -       -     -      miopen_depthwise_convolution
conv        conv               1  2  4  -     -       -     -      mkldnn::_convolution_pointwise
conv        conv_strided       1  2  4  -     -       -     -      cudnn_convolution_relu miopen_convolution_relu
conv        conv_strided       1  2  6  -     -       -     -      cudnn_convolution_add_relu
conv        conv_strided       1  2  5  -     -       -     -      _conv_depthwise2d conv_depthwise3d
conv        conv_strided       1  2  5  -     -       -     -      _slow_conv2d_forward slow_conv3d_forward
conv        conv_transposed    1  2  3  -     -       -     -      cudnn_convolution_transpose
conv        conv_transposed    1  2  4  -     -       -     -      miopen_convolution_transpose
conv        conv_backward      1  3  11 -     -       -     -      convolution_backward convolution_backward_overrideable
softmax     softmax            1  -  -  -     -       -     5      _softmax _log_softmax
softmax     softmax            1  -  -  -     -       -     4      _softmax_backward_data _log_softmax_backward_data
norm        like               1  -  -  -     -       -     5      native_layer_norm native_batch_norm cudnn_batch_norm
norm        like               1  -  -  -     -       -     5      miopen_batch_norm native_group_norm _fused_rms_norm rms_norm
norm        like               1  -  -  -     -       -     8      native_layer_norm_backward native_batch_norm_backward
norm        like               1  -  -  -     -       -     8      cudnn_batch_norm_backward miopen_batch_norm_backward
norm        like               1  -  -  -     -       -     8      native_group_norm_backward _fused_rms_norm_backward
norm        like               1  -  -  -     -       -     5      aiter::_groupnorm_run
norm        like               1  -  -  -     -       -     4      aiter::rms_norm aiter::rmsnorm2d_fwd_ck
norm        into               1  2  -  -     -       -     4      _C::rms_norm aiter::rmsnorm
norm        into               1  2  -  -     -       -     5      aiter::add_rmsnorm aiter::rmsnorm2d_fwd_with_add_ck
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
elementwise elementwise        -  1  -  -     -       -     1      neg neg_ square rsqrt sqrt sqrt_ reciprocal exp exp_ log log2
elementwise elementwise        -  1  -  -     -       -     1      erf sigmoid sigmoid_ silu silu_ gelu relu relu_ tanh tanh_
elementwise elementwise        -  1  -  -     -       -     1      cos sin abs sign floor ceil round leaky_relu hardtanh
elementwise elementwise        -  1  -  -     -       -     3      softplus
elementwise dropout            1  -  -  -     -       -     4      native_dropout
elementwise elementwise        -  2  -  -     -       -     1      add add_ sub sub_ rsub mul mul_ div div_ pow pow_ fmod
elementwise elementwise        -  2  -  -     -       -     1      remainder clamp_min clamp_min_ clamp_max maximum minimum
elementwise elementwise        -  2  -  -     -       -     3      threshold_backward sigmoid_backward tanh_backward
elementwise elementwise        -  2  -  -     -       -     4      silu_backward gelu_backward native_dropout_backward
elementwise elementwise        -  3  -  -     -       -     1      where masked_fill masked_fill_ clamp clamp_
elementwise elementwise        -  3  -  -     -       -     3      addcmul addcmul_ addcdiv addcdiv_ lerp lerp_
elementwise into               1  -  -  -     -       -     2      _C::silu_and_mul sgl_kernel::silu_and_mul
elementwise into               1  -  -  -     -       -     2      aiter::silu_and_mul aiter::gelu_and_mul
elementwise compare            -  2  -  -     -       -     1      eq ne lt le gt ge logical_and logical_or bitwise_and
elementwise compare            -  2  -  -     -       -     1      bitwise_or
elementwise compare            -  1  -  -     -       -     1      logical_not bitwise_not isnan isinf
reduction   reduction          1  2  -  -     -       -     1      sum mean amax amin prod var std logsumexp
reduction   reduction          1  2  -  -     -       -     1      max min all any argmax argmin count_nonzero
reduction   reduction          1  3  -  -     -       -     1      linalg_vector_norm norm
layout      copy               1  2  -  -     -       -     0      copy_
layout      fill               1  -  -  -     -       -     0      fill_ zero_
', chr(10)
                    ),
                    chr(10)
                )
            ) AS line
    ),

    field AS (
        SELECT regexp_split_to_array(line, ' +') AS field
        FROM line
    ),

    form AS (
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
        FROM field
    )

    SELECT
        if(op LIKE '%::%', op, 'aten::' || op) AS name,
        op_class, form, a, b, c, heads, causal, seqs, factor
    FROM form
);
