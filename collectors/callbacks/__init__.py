"""Callbacks for third-party trainers, based on `tracekit.collect`.

`tracekit.collectors.callbacks.transformers` and `tracekit.collectors.callbacks.lightning` each
define a `TracekitCallback`. Nothing else imports them, so their libraries are optional.
"""
