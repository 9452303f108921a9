-- Kernel class refined by the launching op.
-- The name of a kernel shows its algorithm, not its purpose: cuDNN convolutions and attention libraries use GEMM
-- kernels. GEMM kernels, and kernels of class other, have the class of the launching convolution or attention op.
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
