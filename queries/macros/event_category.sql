-- Which kind of event is meant by a category name, of today and of older profilers?
-- Category names as Kineto's ActivityType.cpp lists them; capitalised ones are those of 2021 and before.
--
-- Kind: macro

CREATE OR REPLACE MACRO is_device_work(category) AS (
    category IN (
        'kernel', 'gpu_memcpy', 'gpu_memset', 'mtia_ccp_events', 'hpu_op',
        'Kernel', 'Memcpy', 'Memset'
    )
);

CREATE OR REPLACE MACRO is_launch_call(category) AS (
    category IN (
        'cuda_runtime', 'cuda_driver', 'xpu_runtime', 'mtia_runtime',
        'privateuse1_runtime', 'privateuse1_driver', 'Runtime'
    )
);

CREATE OR REPLACE MACRO is_op(category) AS category IN ('cpu_op', 'Operator');

CREATE OR REPLACE MACRO is_annotation(category) AS category = 'user_annotation';

CREATE OR REPLACE MACRO is_python_call(category) AS category = 'python_function';
