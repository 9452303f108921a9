-- Which kind of event is meant by a category name, of today and of older profilers?
-- Category names as Kineto's ActivityType.h lists them; capitalised ones are those of 2021 and before. Work on devices
-- that other profilers mark is found by the rules of queries/rules/device_events.toml, in table device_mark: they are
-- tried on events of a category that is not known here, and of those that hold several things (mtia_ccp_events, hpu_op).
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

-- Calls that put nothing on a device (of the profiler itself, too) tell nothing.
CREATE OR REPLACE MACRO is_launch_of_work(category, name) AS (
    is_launch_call(category)
    AND regexp_matches(name, '(?i)launch|enqueue|memcpy|memset|append|runFunction|submit')
);

CREATE OR REPLACE MACRO is_op(category) AS category IN ('cpu_op', 'Operator');

CREATE OR REPLACE MACRO is_annotation(category) AS category = 'user_annotation';

CREATE OR REPLACE MACRO is_python_call(category) AS category = 'python_function';

-- Any other category that is known: it is no work on a device.
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

-- The module that a kernel names itself: module_fqn of annotated CUDA graphs (torch.cuda.graph_annotations, torch 2.12
-- and later); in traces of Triton's Proton the scopes in call_stack, between the root and the kernel's own function.
CREATE OR REPLACE MACRO annotated_module(args) AS
coalesce(
    args ->> '$.module_fqn',
    nullif(array_to_string((args ->> '$.call_stack[*]')[2:-2], '/'), '')
);

-- More than 48 bits address is no memory's: what a file says beyond tells nothing, and would overflow sums.
CREATE OR REPLACE MACRO addressable(nelems) AS
if(nelems BETWEEN 0 AND 281474976710656, nelems, NULL);
