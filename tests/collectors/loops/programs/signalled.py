"""A loop that SIGTERM ends, with exit code 0; otherwise it takes five minutes."""

import signal
import sys
import time

import tiny

signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
tiny.train(15_000, after=lambda _: time.sleep(0.02))
