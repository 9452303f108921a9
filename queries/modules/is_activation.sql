-- Does a kernel compute the activation of an MLP?
--
-- Kind:     function
-- Access:   private
-- Params:
--   class  VARCHAR  as in table kernel_class
--   name   VARCHAR  name of the kernel

CREATE OR REPLACE MACRO is_activation(name, class) AS (
    NOT is_gemm(class) AND regexp_matches(name, '(?i)silu|swiglu|gelu|act_and_mul')
);
