-- Functions that classify event categories of current and older profilers.
-- The names come from Kineto's ActivityType.h. Capitalized names date from 2021 or earlier. For unknown categories, and
-- for categories that mix device work and other events (mtia_ccp_events, hpu_op), the marks in
-- queries/rules/device_events.toml (device_mark) recognize device work.
--
-- Kind: function

CREATE OR REPLACE MACRO is_device_work(category) AS (
    category IN ('kernel', 'gpu_memcpy', 'gpu_memset', 'Kernel', 'Memcpy', 'Memset')
);

CREATE OR REPLACE MACRO is_launch_call(category) AS (
    category IN (
        'cuda_runtime', 'cuda_driver', 'xpu_runtime', 'xpu_driver', 'mtia_runtime',
        'privateuse1_runtime', 'privateuse1_driver', 'Runtime'
    )
);

-- Runtime calls with other names launch nothing, including the profiler's own calls. They do not
-- prove that device work was launched.
CREATE OR REPLACE MACRO is_launch_of_work(category, name) AS (
    is_launch_call(category)
    AND regexp_matches(name, '(?i)launch|enqueue|memcpy|memset|append|runFunction|submit')
);

CREATE OR REPLACE MACRO is_op(category) AS category IN ('cpu_op', 'Operator');

CREATE OR REPLACE MACRO is_annotation(category) AS category = 'user_annotation';

CREATE OR REPLACE MACRO is_python_call(category) AS category = 'python_function';

-- Categories that known profilers write.
CREATE OR REPLACE MACRO is_known_category(category) AS (
    is_device_work(category)
    OR is_launch_call(category)
    OR category IN (
        'cpu_op', 'user_annotation', 'python_function', 'gpu_user_annotation', 'cuda_sync',
        'cuda_event', 'xpu_sync', 'overhead', 'Trace', 'external_correlation',
        'cpu_instant_event', 'cuda_profiler_range', 'glow_runtime', 'mtia_insight', 'mtia_counters',
        'xpu_scope_profiler', 'hardware_counters', 'Operator', 'Python'
    )
);

-- Module in the arguments of a kernel. Annotated CUDA graphs (torch.cuda.graph_annotations, torch
-- 2.12 and later) have module_fqn; Triton's Proton has the scopes from the root to the kernel in
-- call_stack.
CREATE OR REPLACE MACRO annotated_module(args) AS
coalesce(
    args ->> '$.module_fqn',
    nullif(array_to_string((args ->> '$.call_stack[*]')[2:-2], '/'), '')
);

-- Byte and element counts above 2^48 are invalid and would overflow sums.
CREATE OR REPLACE MACRO addressable(amount) AS
if(amount BETWEEN 0 AND 281474976710656, amount, NULL);
