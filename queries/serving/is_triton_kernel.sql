-- Whether a kernel is written in Triton.
-- Recognized by name: usually a lower-case Python function name without C++ signature or mangling. GEMMs, convolutions,
-- and vendor kernels with such names (cuDNN, fmha, CUTLASS) are excluded.
--
-- Kind:     function
-- Access:   private
-- Params:
--   class  VARCHAR  kernel class
--   name   VARCHAR  kernel name

CREATE OR REPLACE MACRO is_triton_kernel(class, name) AS (
    is_fused(class)
    OR (
        NOT (is_gemm(class) OR is_conv(class) OR copy_of(class) = 'set')
        AND regexp_matches(name, '^[a-z_][a-z0-9_]*$')
        AND NOT regexp_matches(name, '^(?:cudnn|fmha|cutlass|flash_(?:fwd|bwd)|memset|memcpy)')
    )
);
