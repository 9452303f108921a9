"""Microbenchmarks: what a machine can really do, as `tracekit bench` measures it.

`plan` says which points are measured, `sampling` how often, `clock` with what; `gemm`, `memcpy`,
`collectives` and `launches` make the calls of one family each. `run` leaves a run folder of stage
`bench`, with one line for each point in `benchmarks.jsonl`: raw times, no rates.
"""
