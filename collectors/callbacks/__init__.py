"""Callbacks for trainers that have such: thin, on the engine of `tracekit.collect`.

`tracekit.collectors.callbacks.transformers` and `tracekit.collectors.callbacks.lightning` each have
a `TracekitCallback`. Neither is loaded by anything else, so their libraries need not be there.
"""
