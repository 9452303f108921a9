-- GPU time by kernel class, summed over all devices.
-- Shares are relative to the sum of the device windows. Time per step is the mean over the steps of all devices and
-- excludes work launched outside steps.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   kernel_classes per total
-- Input:    kernel_classes
-- Columns:
--   class VARCHAR, kind VARCHAR, kernel_count BIGINT, kernel_ns BIGINT
--   wall_ns       BIGINT  busy time, ns; overlap counts once; adds up to the busy time of all devices
--   wall_pct      DOUBLE  wall_ns as a share of all windows, 0 to 100
--   step_wall_ns  DOUBLE  busy time per step, ns; overlap counts once; NULL without steps
-- View:
--   breakdown  title="Kernel classes" label=class bar=wall_pct
--              figures=wall_ns,wall_pct,kernel_count,step_wall_ns titles="busy,% of window,kernels,busy" colour=kind most=8 one=class many=classes
--   chart      name=kernel_classes form=bars title="GPU time by kernel class" y=class order=rows x=wall_ns
--              axis="wall time of all devices" colour=kind largest=wall_ns tip=class,kind,wall_ns,wall_pct,kernel_ns,kernel_count
-- Invariant: 0 <= wall_ns AND wall_ns <= kernel_ns
-- Invariant: wall_pct IS NULL OR (0 <= wall_pct AND wall_pct <= 100.0000001)

SELECT
    class, kind,
    sum(kernel_count)::BIGINT AS kernel_count,
    sum(kernel_ns)::BIGINT AS kernel_ns,
    sum(wall_ns)::BIGINT AS wall_ns,
    100.0 * sum(wall_ns)::BIGINT
    / nullif((SELECT sum(window_ns)::BIGINT FROM timeline), 0) AS wall_pct,
    sum(in_step_ns)::BIGINT
    / (SELECT sum(step_count)::BIGINT FROM stepped_devices('steps')) AS step_wall_ns
FROM kernel_classes
GROUP BY class, kind
ORDER BY sum(wall_ns) DESC, class, kind
