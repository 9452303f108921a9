-- Which type did the kernels of an op compute in?
-- Kernels of products of fp32 may compute in tf32, which has another peak: their names tell.
--
-- Kind:     function
-- Access:   private
-- Params:
--   kernel   VARCHAR  name of a kernel
--   dtype    VARCHAR  type of the operands, as in op_costs
--   is_tf32  BOOLEAN  a kernel of the op computes in tf32

CREATE OR REPLACE MACRO is_tf32_kernel(kernel) AS
regexp_matches(kernel, '(?i)tf32|tensorop_s1688gemm');

-- The type whose peak and ceiling the work is measured against.
CREATE OR REPLACE MACRO computed_type(dtype, is_tf32) AS
if(dtype = 'fp32' AND is_tf32, 'tf32', dtype);
