"""Ops and memory categories, compared with torch's report of the same recording."""

import json
import warnings
from collections import Counter
from decimal import Decimal

import pytest

import tracekit

torch = pytest.importorskip("torch")
pytest.importorskip("torch.profiler._memory_profiler")

pytestmark = pytest.mark.nightly("trains models under the profiler of torch")

NAMES = {
    "PARAMETER": "parameters",
    "OPTIMIZER_STATE": "optimizer state",
    "INPUT": "inputs",
    "TEMPORARY": "temporary",
    # Temporary tensors of a backward pass.
    "AUTOGRAD_DETAIL": "temporary",
    "ACTIVATION": "activations",
    "GRADIENT": "gradients",
    None: "unknown",
}


def perceptron():
    layers = [torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)]
    return torch.nn.Sequential(*layers, torch.nn.LayerNorm(64)), torch.randn(128, 64)


def encoder():
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 2), torch.randn(4, 32, 64)


def recorded(make, path):
    """Train for three steps and leave the trace; return the profiler."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    options = {"profile_memory": True, "record_shapes": True, "with_stack": True}
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.profiler.profile(activities=activities, **options) as profiler:
            model, batch = make()
            optimizer = torch.optim.AdamW(model.parameters())
            for _ in range(3):
                optimizer.zero_grad()
                model(batch).square().mean().backward()
                optimizer.step()
    profiler.export_chrome_trace(str(path))
    return profiler


def told_by_torch(profiler, until_ns):
    """Return the categories of the blocks in use at a given time, by address."""
    profile = profiler._memory_profile()
    live = {}
    for at_ns, action, (key, version), _ in profile.timeline:
        address = getattr(getattr(key, "storage", None), "ptr", None)
        if at_ns > until_ns or address is None:
            continue
        if action.name == "DESTROY":
            live.pop(address, None)
        else:
            live[address] = key, version + (action.name == "INCREMENT_VERSION")
    found = {address: profile._categories.get(*live[address]) for address in live}
    return {address: NAMES[getattr(one, "name", None)] for address, one in found.items()}


def at_the_peak(make, path):
    """Return the bytes in use at the peak of a recorded training, by our category and torch's."""
    profiler = recorded(make, path)
    trace_json = json.loads(path.read_bytes(), parse_float=Decimal)
    moments = [one for one in trace_json["traceEvents"] if one.get("name") == "[memory]"]
    peak = max(moments, key=lambda one: one["args"]["Total Allocated"])
    at_ns = trace_json["baseTimeNanoseconds"] + int(peak["ts"] * 1000)
    theirs = told_by_torch(profiler, at_ns)
    with tracekit.open(path, cache=False) as trace:
        ours = trace.sql(
            "SELECT m.address, e.bytes, e.category FROM memory_event AS e "
            "INNER JOIN memory AS m USING (trace_id, event_id) WHERE e.is_at_peak"
        ).rows
    pairs = Counter()
    for address, size, category in ours:
        pairs[category, theirs.get(address)] += size
    return pairs


@pytest.mark.parametrize("make", [perceptron, encoder])
def test_most_bytes_have_torch_s_category(make, tmp_path):
    pairs = at_the_peak(make, tmp_path / "trace.json")
    same = sum(size for (one, other), size in pairs.items() if one == other)
    assert same >= 0.95 * pairs.total(), pairs
    assert pairs["parameters", "parameters"] == sum(
        size for (_, other), size in pairs.items() if other == "parameters"
    )


def test_ops_are_those_of_the_table_of_torch(tmp_path):
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = torch.nn.Sequential(torch.nn.Embedding(50, 16), layer, torch.nn.Linear(16, 50))
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(0, 50, (2, 8))
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, record_shapes=True) as profiler:
        for _ in range(2):
            loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    ours = {}
    with tracekit.open(tmp_path / "trace.json", cache=False) as trace:
        for by_shape, name in ((False, "ops"), (True, "op_arguments")):
            for row in trace.query(name, limit=0).to_dicts():
                shapes = json.dumps(json.loads(row["shapes"] or "[]")) if by_shape else None
                sums = ours.setdefault((row["op"], shapes), [])
                sums += [row[column] for column in ("op_count", "self_host_ns", "host_ns")]
    folded = set()
    for by_shape in (False, True):
        for row in profiler.key_averages(group_by_input_shape=by_shape):
            if row.is_user_annotation:
                continue
            own = ours.pop((row.key, json.dumps(row.input_shapes) if by_shape else None))
            # Torch's times are doubles in µs, and its table does not distinguish types.
            near = {"abs": 0.01 * row.count}
            assert sum(own[1::3]) == pytest.approx(row.self_cpu_time_total * 1e3, **near)
            if len(own) == 3:
                assert own[2] == pytest.approx(row.cpu_time_total * 1e3, **near)
            if sum(own[::3]) != row.count:
                folded.add(row.key)
    # Torch's table merges an op that only calls itself into one call.
    assert folded <= {"aten::mul", "aten::div_"}
    assert ours == {}
