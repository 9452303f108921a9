"""Prints what a process inherits: arguments, environment, signals, open files, limits."""

import os
import resource
import signal
import sys

import tiny
import torch

for name in ("argv", "path", "flags", "executable", "prefix", "dont_write_bytecode"):
    print(name, getattr(sys, name))
print(__name__, __file__, os.getcwd(), os.umask(0o22), os.nice(0))
print("stdin", sys.stdin.read())
print(
    "limits", resource.getrlimit(resource.RLIMIT_CORE), resource.getrlimit(resource.RLIMIT_NOFILE)
)
names = sorted(signal.valid_signals())
print("signals", [(int(one), str(signal.getsignal(one))) for one in names])
print("blocked", sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())))
print("files", sorted(os.listdir("/proc/self/fd"), key=int))
ours = ("TRACEKIT_", "PYTHONPATH", "KINETO_LOG_LEVEL", "LOOP_", "PWD")
for name, value in sorted(os.environ.items()):
    if not name.startswith(ours):
        print("variable", name, value)
print("excepthook", sys.excepthook is sys.__excepthook__, torch.get_num_threads())
tiny.train()
print("after", sorted(one.__module__ for one in map(type, sys.meta_path)), len(sys.path))
