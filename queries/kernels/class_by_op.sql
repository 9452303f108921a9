-- Which class does a kernel have where the op that launched it is known?
-- The name of a kernel says what it computes with: cuDNN runs convolutions, and libraries run attention, by kernels that
-- are called gemm. Where the op is a convolution, attention or a product, kernels of class gemm and other have its class.
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
