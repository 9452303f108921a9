-- Training phase in the name of a kernel; NULL if the name contains none.
-- Recognizes names of PyTorch, cuDNN, FlashAttention, CUTLASS, and Triton (backward, bwd, bprop, dgrad, wgrad; forward,
-- fwd, fprop). Optimizer kernels and multi_tensor_apply count as phase optimizer.
--
-- Kind:   function
-- Access: private
-- Params:
--   name   VARCHAR  kernel name
--   class  VARCHAR  kernel class

CREATE OR REPLACE MACRO kernel_phase_name(name, class) AS
CASE
    WHEN is_optimizer(class) OR contains(name, 'multi_tensor_apply') THEN 'optimizer'
    WHEN regexp_matches(
        name,
        '(?i)backward|bprop|dgrad|wgrad|grad_?(input|weight|bias)|(^|[^a-z])bwd([^a-z]|$)|bn_bw_'
    ) THEN 'backward'
    WHEN regexp_matches(name, '(?i)forward|fprop|(^|[^a-z])fwd([^a-z]|$)|bn_fw_') THEN 'forward'
END;
