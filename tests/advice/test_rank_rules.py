"""Advice about several ranks, on synthetic runs with and without the fault."""

import pytest
from made_runs import Layout, Step, make_run
from run_of_ranks import write_ranks
from traces_by_hand import call, kernel, work

import tracekit


def _advised(folder):
    with tracekit.open(folder, cache=False) as trace:
        windows = trace.query("timeline").column("window_ns")
        return trace.advise(), max(windows)


def _ranks(folder, *ranks):
    write_ranks(folder, len(ranks), events=ranks.__getitem__)
    return folder


def _reduced(rank, took):
    """Return reductions of a rank of six: first with one rank, then with all, which wait for it."""
    pair = rank // 2
    groups = [
        (f"{pair + 1}", "pairs", 2, [2 * pair, 2 * pair + 1], 5, 5 + took),
        ("0", "world", 6, [*range(6)], 5 + took, 600),
    ]
    return [
        event
        for number, (name, purpose, size, ranks, start, end) in enumerate(groups, 1)
        for event in work(
            number, start, end, number, "ncclDevKernel_AllReduce_Sum(x)",
            **{
                "Collective name": "allreduce", "In msg nelems": 1 << 20, "dtype": "BFloat16",
                "Out msg nelems": 1 << 20, "Group size": size, "Process Group Name": name,
                "Process Group Description": purpose, "Process Group Ranks": str(ranks), "Seq": 1,
            },
        )
    ]  # fmt: skip


def test_a_link_that_is_slower_than_others(tmp_path):
    ranks = [_reduced(rank, 500 if rank in (2, 3) else 100) for rank in range(6)]
    advised, _ = _advised(_ranks(tmp_path / "slow", *ranks))
    first = advised.advice[0]
    assert first.candidate.rule == "advice_link"
    # All wait for them: 400 of 595 µs. Work of all ranks takes 95 µs.
    assert first.prediction.gain_pct == pytest.approx(100 * 400 / 595, abs=0.2)
    even = _advised(_ranks(tmp_path / "even", *(_reduced(rank, 100) for rank in range(6))))
    assert not even[0].advice


def test_bubbles_of_a_pipeline(tmp_path):
    layout = Layout(data=2, tensor=2, pipeline=4, ranks_per_node=4)
    step = Step(forward_ns=100_000, backward_ns=200_000, kernels=1, layers=1, microbatches=6,
                schedule="gpipe", steps=1)  # fmt: skip
    advised, _ = _advised(make_run(tmp_path / "run", layout, step).folder)
    assert "advice_bubbles" in {one.rule for one, _ in advised.undecided}


def _experts(took, is_spread=True):
    exchange = {
        "Collective name": "all_to_allv", "In msg nelems": 64, "Out msg nelems": 64,
        "dtype": "BFloat16", "Group size": 2, "Process Group Name": "0",
    }  # fmt: skip
    spans = [
        ("attention", 5, 100),
        ("ncclDevKernel_SendRecv(x)", 100, 110),
        ("m_grouped_gemm", 110, 110 + took),
        ("ncclDevKernel_SendRecv(x)", 110 + took, 420),
    ]
    events = []
    for number, (name, start, end) in enumerate(spans):
        args = exchange | {"Seq": number} if name.startswith("nccl") else {}
        if is_spread or not args:
            events += [
                call(number, number + 1, number + 1),
                kernel(name, start, end, number + 1, **args),
            ]
    return events


def test_experts_of_one_rank_that_have_more_to_do(tmp_path):
    folder = _ranks(tmp_path / "uneven", _experts(300), _experts(100))
    with tracekit.open(folder, cache=False) as trace:
        (row,) = trace.query("advice_experts").to_dicts()
    assert row["change"] == ("name=*[gG]rouped* rank=0 x0.667; name=*[gG]rouped* rank=1 x2.000")
    assert row["cost_ns"] == 100_000
    advised, _ = _advised(folder)
    (gain,) = (
        one.prediction.gain_pct for one in advised.advice
        if one.candidate.rule == "advice_experts"
    )  # fmt: skip
    assert gain == pytest.approx(100 * 100 / 415, abs=0.2)
    even = _ranks(tmp_path / "even", _experts(300), _experts(300))
    apart = _ranks(tmp_path / "apart", _experts(300, False), _experts(100, False))
    for folder in (even, apart):
        with tracekit.open(folder, cache=False) as trace:
            assert not trace.query("advice_experts")
