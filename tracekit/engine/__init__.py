"""Many ranks: the unit of work, and the engines that do units in a loop, in processes, on Ray.

- :mod:`tracekit.engine.work`: what a unit is given and what it leaves, all of it picklable.
- :mod:`tracekit.engine.unit`: the unit of work itself, the same code on every engine.
- :mod:`tracekit.engine.engines`: what an engine is, and how one is chosen.
- :mod:`tracekit.engine.serial`, :mod:`tracekit.engine.processes`: a loop, and local processes.
"""
