-- Data type in which the kernels of an op compute.
-- An fp32 GEMM may compute in tf32, which has a different peak rate. The kernel name shows the type.
--
-- Kind:     function
-- Access:   private
-- Params:
--   kernel   VARCHAR  kernel name
--   dtype    VARCHAR  operand type, as in op_costs
--   is_tf32  BOOLEAN  a kernel of the op computes in tf32

CREATE OR REPLACE MACRO is_tf32_kernel(kernel) AS
regexp_matches(kernel, '(?i)tf32|tensorop_s1688gemm');

CREATE OR REPLACE MACRO computed_type(dtype, is_tf32) AS
if(dtype = 'fp32' AND is_tf32, 'tf32', dtype);
