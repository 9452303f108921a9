"""Microbenchmarks of `tracekit bench`.

`plan` selects the points, `sampling` the number of samples, and `clock` the clock. `gemm`,
`memcpy`, `collectives`, and `launches` each create the calls of one family. `run` writes a run
folder of stage `bench` with one line per point in `benchmarks.jsonl`: raw times, no rates.
"""
