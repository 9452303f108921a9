"""A loop that ends with a wait after the last recorded step (`wait`) or with forked children."""

import os
import sys
import time

import tiny

is_waiting = sys.argv[1] == "wait"
tiny.train(8 if is_waiting else tiny.STEPS)
if is_waiting:
    time.sleep(2)
else:
    for code in (0, 3):
        child = os.fork()
        if not child:
            sys.exit(code)
        tiny.tell(f"child ended {os.waitpid(child, 0)[1]}")
