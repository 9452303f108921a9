-- Kernel class refined by the launching op.
-- Kernel names show the method, not the purpose: cuDNN convolutions and attention libraries use GEMM kernels. GEMM and
-- other kernels of convolution and attention ops get the class of the op.
--
-- Kind:     function
-- Access:   private

CREATE OR REPLACE MACRO class_by_op(class, op_name) AS CASE
    WHEN NOT (is_gemm(class) OR class = 'other') OR op_name IS NULL THEN class
    WHEN
        regexp_matches(
            op_name,
            '(?i)^\w+::_?(?:(?:cudnn|miopen|mkldnn|slow|thnn)_)*(?:dilated)?_?'
            || 'conv(?:olution|_depthwise|_transpose|[123]d)'
        )
        THEN 'conv'
    WHEN
        regexp_matches(
            op_name,
            '^\w+::_?(?:scaled_dot_product|flash|efficient|cudnn)_\w*attention|^flash_attn\w*::'
        )
        THEN 'attention'
    ELSE class
END;
