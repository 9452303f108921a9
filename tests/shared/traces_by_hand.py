"""Events of small, readable traces; times are in µs, as in trace files."""


def span(category, name, start, end, tid=1, *, pid=1, **args):
    """Return an event that lasts from one instant to another; keywords are its arguments."""
    place = {"pid": pid, "tid": tid, "ts": start, "dur": end - start}
    return {"ph": "X", "cat": category, "name": name, **place, "args": args}


def kernel(name, start, end, correlation=None, *, stream=7, device=0, **args):
    """Return a kernel, or by its name a copy or a memset, on a stream of a device."""
    kinds = {"Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}
    category = kinds.get(name.partition(" ")[0], "kernel")
    link = {} if correlation is None else {"correlation": correlation}
    place = {"device": device, "stream": stream}
    return span(category, name, start, end, stream, pid=device, **place, **link, **args)


def call(start, end, correlation=0, name="cudaLaunchKernel", tid=1):
    return span("cuda_runtime", name, start, end, tid, correlation=correlation)


def work(launch, start, end, correlation, name="k", *, tid=1, **args):
    """Return a call of 1 µs and the kernel that it launches, of communication on stream 20."""
    stream = 20 if name.startswith("nccl") else 7
    return [
        call(launch, launch + 1, correlation, tid=tid),
        kernel(name, start, end, correlation, stream=stream, **args),
    ]


def memory(at, **args):
    """Return a call of the allocator."""
    event = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1}
    return event | {"ts": at, "args": args}


def process(pid, name, label=None):
    events = [{"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}]
    if label is not None:
        events.append({"ph": "M", "name": "process_labels", "pid": pid, "args": {"labels": label}})
    return events


def thread(pid, tid, name):
    return {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}
