"""Program of the simulated machine: training steps as lists of host actions, based on knobs.

Actions have their final durations in integer ns. Jitter depends only on the seed and the name of an
action, so machines that differ in one knob have the same jitter everywhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, NamedTuple

# -- actions of host threads, with integer ns; streams have numbers, and events have names ---------


class Busy(NamedTuple):
    """The thread works for itself."""

    ns: int


class Span(NamedTuple):
    """An op, a range or a Python call around other actions."""

    category: str
    name: str
    inside: tuple[Action, ...]
    args: Mapping[str, Any] = {}


class Work(NamedTuple):
    """A kernel or a copy. For a collective, ns is the transfer without waiting."""

    name: str
    stream: int
    ns: int
    gap_ns: int  # at least so long after the work before it on its stream
    category: str = "kernel"
    args: Mapping[str, Any] = {}
    collective: int | None = None  # its number, the same on all ranks


class Launch(NamedTuple):
    """A call that puts work on the device; a graph replay puts there several in their order."""

    call: str
    call_ns: int
    latency_ns: int
    work: tuple[Work, ...]
    waits: bool = False  # until its work is done
    graph: int | None = None  # number of the graph that is replayed


class Record(NamedTuple):
    """An event is recorded on a stream; each has its name for itself."""

    event: str
    stream: int
    call_ns: int


class Wait(NamedTuple):
    """A stream waits for an event."""

    event: str
    stream: int
    call_ns: int


class Synchronise(NamedTuple):
    """The thread waits for a stream, or for the device if None."""

    call_ns: int
    stream: int | None = None


class Backward(NamedTuple):
    """Autograd's thread runs these, and the calling thread waits for it."""

    inside: tuple[Action, ...]
    there_ns: int  # from one thread to the other
    back_ns: int


class NextBatch(NamedTuple):
    """The thread creates a batch, or receives it from a worker."""

    number: int
    load_ns: int
    take_ns: int


Action = Busy | Span | Launch | Record | Wait | Synchronise | Backward | NextBatch


def works_of(action):
    """Yield the work that an action launches."""
    if isinstance(action, Launch):
        yield from action.work
    elif isinstance(action, Span | Backward):
        for inner in action.inside:
            yield from works_of(inner)


# -- the program -----------------------------------------------------------------------------------

COMPUTE, COMMUNICATION, SIDE = 7, 20, 24
"""The streams of a device."""

GEMM = "ampere_sgemm_128x64_tn"
ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<float>)"
)
ADAM = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
    "namespace)::FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor<float, 4> >()"
)
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Knobs of a machine and its program. Knobs in ns can have any scale.

    Host time consists of python_ns, op_ns, handover_ns, and all ..._call_ns. It excludes loading,
    and latencies, which do not depend on host code.
    """

    ranks: int = 1
    steps: int = 4
    layers: int = 4
    seed: int = 1
    jitter: float = 0.05  # maximum relative jitter of a kernel, the same on all ranks
    rank_jitter: float = 0.01  # additional jitter per rank

    python_ns: int = 3_000  # between two ops
    op_ns: int = 3_000  # of an op without its calls
    launch_call_ns: int = 3_000
    event_call_ns: int = 1_000
    sync_call_ns: int = 2_000  # of a synchronization without a wait
    handover_ns: int = 5_000  # from one thread to another
    wake_ns: int = 4_000  # from the end of the awaited work to the return of the call

    gemm_ns: int = 120_000
    elementwise_ns: int = 9_000
    has_elementwise: bool = True
    optimizer_ns: int = 25_000
    copy_ns: int = 20_000  # of a batch to the device
    item_copy_ns: int = 1_500
    launch_latency_ns: int = 6_000  # from the start of a call to its work, on an idle stream
    stream_gap_ns: int = 1_200  # between queued work of one stream
    event_latency_ns: int = 1_500  # from the end of work to waiting work on another stream
    contention_pct: int = 0  # how much longer compute takes while communication runs

    collective_latency_ns: int = 20_000
    bandwidth_gb_per_s: float = 100
    bucket_bytes: int = 16_000_000  # of every second bucket; the others have half
    overlaps: bool = True  # only the optimizer waits for communication

    load_ns: int = 300_000  # making a batch
    load_workers: int = 0  # 0: the main thread creates batches
    batch_take_ns: int = 5_000  # cost of receiving a batch from a worker
    batch_copy: str = "pinned"  # pinned, pageable (the call waits) or none

    synchronise: str = "device"  # device, stream or none: at the end of a step
    item_every: int = 0  # loss.item() in every so many steps; 0 for never
    host_waits: bool = True  # otherwise, calls that wait for the device return immediately
    has_side_stream: bool = False  # one GEMM per layer runs on a side stream
    has_graph: bool = False  # forward pass and each layer of the backward pass are graph replays

    slow_rank: int = -1
    slow_rank_factor: float = 2  # of its compute
    clock_offset_ns: int = 0  # clock difference between consecutive ranks

    has_event_rows: bool = True  # the trace has rows of category cuda_sync

    def changed(self, **knobs):
        return replace(self, **knobs)

    def draw(self, name):
        """Return a number from -1 to 1 that the seed and a name decide."""
        digest = blake2b(f"{self.seed}/{name}".encode(), digest_size=4).digest()
        return int.from_bytes(digest, "little") / 2**31 - 1


class Product(NamedTuple):
    """A product of the forward pass, which its node of autograd leads back to by number."""

    sequence_number: int
    layer: int
    is_mlp: bool


class Training:
    """Writes down the actions of one rank."""

    def __init__(self, machine, rank):
        self.machine, self.rank = machine, rank
        self.sequence_number = 100
        self.collective_number = 0
        self.graphs = {}

    def steps(self):
        for step in range(self.machine.steps):
            yield Span("user_annotation", f"ProfilerStep#{step + 1}", self.step(step))

    def step(self, step):
        knobs, name = self.machine, f"{step}"
        products = []
        actions = [*self.batch(step)]
        forward = [layer for n in range(knobs.layers) for layer in self.forward(name, n, products)]
        if knobs.has_graph:
            numbered = {"Sequence number": products[0].sequence_number}
            replay = self.replay(f"{name}/forward", "Graphed", forward, **numbered)
            forward = [Span("user_annotation", "fwd:model", (replay,))]
        actions += [self.python(f"{name}/model"), *forward]
        if knobs.item_every and step % knobs.item_every == 0:
            actions += self.item(name)
        actions += [self.python(f"{name}/loss"), *self.backward(name, products)]
        actions += [self.python(f"{name}/optimizer"), self.optimizer(name)]
        return (*actions, *self.end(name), self.python(f"{name}/end"))

    def batch(self, step):
        knobs, name = self.machine, f"{step}/batch"
        load = round(knobs.load_ns * (1 + knobs.jitter * knobs.draw(f"{name}/{self.rank}")))
        yield NextBatch(step, load, self.host(knobs.batch_take_ns, f"{name}/take"))
        is_pageable = knobs.batch_copy == "pageable"
        memory = "Pageable" if is_pageable else "Pinned"
        copy = self.work(
            f"{name}/copy", f"Memcpy HtoD ({memory} -> Device)", COMPUTE, knobs.copy_ns,
            category="gpu_memcpy", bytes=1_000_000,
        )  # fmt: skip
        launch = self.launch(name, (copy,), "cudaMemcpyAsync", is_pageable)
        has_copy = knobs.batch_copy != "none"
        yield from self.op(f"{name}/to", "aten::copy_", *((launch,) if has_copy else ()))

    def forward(self, step, number, products):
        for kind in ("attention", "mlp"):
            name = f"{step}/forward/{number}/{kind}"
            self.sequence_number += 1
            products.append(Product(self.sequence_number, number, kind == "mlp"))
            ops = self.product(name, {"Sequence number": self.sequence_number})
            ops += self.elementwise(name)
            if self.machine.has_graph:
                yield from ops
            else:
                yield Span("user_annotation", f"fwd:layers.{number}.{kind}", ops)

    def product(self, name, numbered):
        """Return a GEMM, and a concurrent one if there is a side stream."""
        knobs = self.machine
        gemm = self.compute(f"{name}/gemm", GEMM, knobs.gemm_ns)
        ops = self.op(f"{name}/mm", "aten::mm", self.launch(name, (gemm,)), **numbered)
        if not knobs.has_side_stream or knobs.has_graph:
            return ops
        side = self.compute(f"{name}/side", GEMM, knobs.gemm_ns, SIDE)
        launch = self.launch(f"{name}/side", (side,))
        beside = self.op(f"{name}/side", "aten::mm", launch, **numbered)
        return (
            *self.after(f"{name}/fork", COMPUTE, SIDE),
            *ops,
            *beside,
            *self.after(f"{name}/join", SIDE, COMPUTE),
        )

    def elementwise(self, name):
        """Return two ops; without kernels, the ops launch nothing."""
        actions = ()
        for op in ("aten::add", "aten::mul"):
            kernel = self.compute(f"{name}/{op}", ELEMENTWISE, self.machine.elementwise_ns)
            launch = self.launch(f"{name}/{op}", (kernel,))
            actions += self.op(
                f"{name}/{op}", op, *((launch,) if self.machine.has_elementwise else ())
            )
        return actions

    def backward(self, step, products):
        knobs = self.machine
        actions = []
        for product in reversed(products):
            number = product.sequence_number
            name = f"{step}/backward/{number - products[0].sequence_number}"
            ops = ()
            for operand in ("input", "weight"):
                ops += self.product(f"{name}/{operand}", {})
            ops += self.elementwise(name)
            if knobs.has_graph:
                actions.append(self.replay(name, "GraphedBackward", ops))
            else:
                actions.append(self.node("MmBackward0", ops, **{"Sequence number": number}))
            if knobs.ranks > 1 and not product.is_mlp:
                size_bytes = knobs.bucket_bytes // (1 + product.layer % 2)
                actions.append(self.all_reduce(name, size_bytes))
        if knobs.has_graph:
            numbered = {"Sequence number": products[0].sequence_number}
            actions = [self.node("GraphedBackward", actions, **numbered)]
        there, back = (
            self.host(knobs.handover_ns, f"{step}/{way}") for way in ("backward", "forward")
        )
        yield Backward(tuple(actions), there, back)

    def node(self, name, inside, **args):
        """Return a node of autograd; the forward thread of its number is the first one."""
        node = f"autograd::engine::evaluate_function: {name}"
        return Span("cpu_op", node, tuple(inside), {**args, "Fwd thread id": 1} if args else {})

    def all_reduce(self, name, size_bytes):
        knobs = self.machine
        self.collective_number += 1
        # The jitter of a collective does not depend on the rank.
        transfer = knobs.collective_latency_ns + size_bytes / knobs.bandwidth_gb_per_s
        ranks = list(range(knobs.ranks))
        arguments = {
            "Collective name": "allreduce", "dtype": "Float", "Group size": knobs.ranks,
            "In msg nelems": size_bytes // 4, "Out msg nelems": size_bytes // 4,
            "In split size": "[]", "Out split size": "[]", "Process Group Name": "0",
            "Process Group Description": "default_pg", "Process Group Ranks": str(ranks),
            "Seq": self.collective_number,
        }  # fmt: skip
        kernel = Work(
            ALL_REDUCE,
            COMMUNICATION,
            max(1, round(transfer * (1 + knobs.jitter * knobs.draw(f"{name}/transfer")))),
            self.gap(f"{name}/nccl"),
            args=arguments,
            collective=self.collective_number,
        )
        launch = self.launch(f"{name}/nccl", (kernel,), "cudaLaunchKernelExC")
        ready = self.after(f"{name}/ready", COMPUTE, COMMUNICATION)
        nccl = Span("user_annotation", "nccl:all_reduce", (launch,))
        record = Span("cpu_op", "record_param_comms", (*ready, nccl), arguments)
        reduced = f"{name}/reduced"
        actions = [
            *self.op(f"{name}/c10d", "c10d::allreduce_", record),
            Record(reduced, COMMUNICATION, self.host(knobs.event_call_ns, f"{reduced}/record")),
        ]
        if not knobs.overlaps:
            wait_ns = self.host(knobs.event_call_ns, f"{reduced}/wait")
            actions.append(Wait(reduced, COMPUTE, wait_ns))
        return self.node("torch::autograd::AccumulateGrad", actions)

    def optimizer(self, step):
        knobs, name = self.machine, f"{step}/optimizer"
        actions = ()
        if knobs.ranks > 1:
            actions += self.after(f"{name}/reduced", COMMUNICATION, COMPUTE)
        for number in range(4):
            key = f"{name}/{number}"
            kernel = self.compute(key, ADAM, knobs.optimizer_ns)
            actions += self.op(key, "aten::_fused_adamw_", self.launch(key, (kernel,)))
        return Span("user_annotation", "Optimizer.step#AdamW.step", actions)

    def item(self, step):
        """Return loss.item(): the copy call waits, so the synchronization after it does not."""
        name = f"{step}/item"
        kind = "Memcpy DtoH (Device -> Pageable)"
        copy = self.work(
            name, kind, COMPUTE, self.machine.item_copy_ns, category="gpu_memcpy", bytes=4
        )
        launch = self.launch(name, (copy,), "cudaMemcpyAsync", waits=True)
        python, scalar = self.op(
            name,
            "aten::_local_scalar_dense",
            launch,
            Synchronise(self.host(self.machine.sync_call_ns, f"{name}/sync"), COMPUTE),
        )
        return (python, Span("cpu_op", "aten::item", (scalar,)))

    def end(self, step):
        knobs, name = self.machine, f"{step}/synchronise"
        call_ns = self.host(knobs.sync_call_ns, name)
        if knobs.synchronise == "device":
            return (Synchronise(call_ns),)
        if knobs.synchronise == "stream":
            return (Synchronise(call_ns, COMPUTE),)
        return ()

    # -- single actions ----------------------------------------------------------------------------

    def host(self, ns, name):
        knobs = self.machine
        return round(ns * (1 + knobs.jitter * knobs.draw(f"{self.rank}/{name}/host")))

    def gap(self, name):
        knobs = self.machine
        return round(knobs.stream_gap_ns * (1 + knobs.jitter * knobs.draw(f"{name}/gap")))

    def python(self, name):
        return Busy(self.host(self.machine.python_ns, f"{name}/python"))

    def op(self, name, op, *inside, **args):
        """Return an op and the Python before it; two thirds of its time is before its calls."""
        own_ns = self.host(self.machine.op_ns, f"{name}/{op}")
        before_ns = own_ns * 2 // 3
        span = Span("cpu_op", op, (Busy(before_ns), *inside, Busy(own_ns - before_ns)), args)
        return (self.python(f"{name}/{op}"), span)

    def launch(self, name, work, call="cudaLaunchKernel", waits=False):
        knobs = self.machine
        latency = knobs.launch_latency_ns * (1 + knobs.jitter * knobs.draw(f"{name}/latency"))
        call_ns = self.host(knobs.launch_call_ns, f"{name}/{call}")
        return Launch(call, call_ns, round(latency), work, waits)

    def replay(self, name, op, inside, **args):
        """Return an op with one launch of all the work that others would launch."""
        kernels = tuple(work for action in inside for work in works_of(action))
        # A graph is the same in each step.
        graph = self.graphs.setdefault(name.partition("/")[2], len(self.graphs) + 1)
        launch = self.launch(name, kernels, "cudaGraphLaunch")._replace(graph=graph)
        return self.op(name, op, launch, **args)[1]

    def work(self, name, kernel, stream, ns, category="kernel", **args):
        knobs = self.machine
        alike = 1 + knobs.jitter * knobs.draw(name)
        own = 1 + knobs.rank_jitter * knobs.draw(f"{self.rank}/{name}")
        whole_ns = max(1, round(ns * alike * own))
        return Work(kernel, stream, whole_ns, self.gap(name), category, args)

    def compute(self, name, kernel, ns, stream=COMPUTE):
        knobs = self.machine
        slow = knobs.slow_rank_factor if self.rank == knobs.slow_rank else 1
        return self.work(name, kernel, stream, ns * slow)

    def after(self, name, first, second):
        """Return actions that make a stream wait for the current end of another."""
        record_ns = self.host(self.machine.event_call_ns, f"{name}/record")
        wait_ns = self.host(self.machine.event_call_ns, f"{name}/wait")
        return (Record(name, first, record_ns), Wait(name, second, wait_ns))
