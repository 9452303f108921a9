"""A loop that profiles itself. Words: `scheduled`, or the first and last profiled step from 0."""

import sys

import tiny
from torch.profiler import ProfilerActivity, profile, schedule


def write(profiler):
    profiler.export_chrome_trace("own_trace.json")


def stop(number):
    if number == last:
        profiler.stop()
        write(profiler)


cpu = [ProfilerActivity.CPU]
if sys.argv[1] == "scheduled":
    when = schedule(wait=3, warmup=1, active=3, repeat=1)
    with profile(activities=cpu, schedule=when, on_trace_ready=write) as profiler:
        tiny.train(after=lambda _: profiler.step())
else:
    first, last = map(int, sys.argv[1:])
    profiler = profile(activities=cpu)
    tiny.train(before=lambda number: number == first and profiler.start(), after=stop)
