"""Advice about loads on serving engines with steps of 10 ms plus 2 ms per request."""

import pytest

import tracekit
from tracekit.prediction.advising import Advised

MS = 1_000_000
PROMPT, ANSWER = 16, 8
LOAD = {"request_count": 24, "prompt_token_count": PROMPT, "max_new_token_count": ANSWER}


def served(limit, gap_ms, in_flight=1000, count=24):
    """Return requests with constant arrival intervals and a fixed number per step."""
    requests = [
        {
            "request_id": number, "outcome": "ok", "is_warmup": False, "is_profiled": False,
            "prompt_token_count": PROMPT, "prompt_source": "token_ids",
            "output_token_count": ANSWER, "arrival_ns": number * gap_ms * MS,
            "token_ns": [], "steps": [[0, 0]],
        }
        for number in range(count)
    ]  # fmt: skip
    now = step = done = sent = 0
    running = []
    queue = []
    while done < count:
        if not running and not queue:
            now = max(now, requests[sent]["arrival_ns"])
        while sent < count and sent - done < in_flight and requests[sent]["arrival_ns"] <= now:
            # The client sends after an answer arrives, or when the request is due.
            is_held = sent - done == in_flight - 1 and sent >= in_flight
            requests[sent]["sent_ns"] = now if is_held else requests[sent]["arrival_ns"]
            queue.append(requests[sent])
            sent += 1
        step += 1
        while queue and len(running) < limit:
            running.append(queue.pop(0))
            running[-1]["steps"] = [[step, step + ANSWER - 1]]
        now += (10 + 2 * len(running)) * MS
        for one in running:
            one["token_ns"].append(now)
        for one in [each for each in running if len(each["token_ns"]) == ANSWER]:
            one |= {"first_token_ns": one["token_ns"][0], "end_ns": now}
            running.remove(one)
            done += 1
    return requests


def advised_of(make_run, requests, limit=1000, **load):
    load = {"arrival": "constant:100"} | LOAD | load
    engine = {"max_requests_per_batch": limit, "page_size": 16, "max_batch_tokens": 4096,
              "num_blocks": 4096, "scheduler_type": "fifo"}  # fmt: skip
    folder = make_run(
        str(load["arrival"]), requests, stage="serve", engine="transformers", load=load,
        extra={"engine": engine},
    )  # fmt: skip
    with tracekit.open(folder, cache=False) as trace:
        return trace.advise()


def mean_ttft_ns(requests):
    return sum(one["first_token_ns"] - one["arrival_ns"] for one in requests) / len(requests)


def test_a_batch_that_is_too_small(make_run):
    slow, quick = served(2, 30), served(4, 30)
    advised = advised_of(make_run, slow, limit=2)
    first = advised.advice[0]
    assert first.candidate.rule == "advice_serving_queue"
    assert first.candidate.changes == ("batch limit=4",)
    assert (first.figure, advised.before_ns) == ("mean TTFT", 0)
    assert first.prediction.before_ns == pytest.approx(mean_ttft_ns(slow))
    low, high = first.prediction.range_pct
    assert low <= 100 * (1 - mean_ttft_ns(quick) / mean_ttft_ns(slow)) <= high
    assert first.load.low["tpot_mean_ns"] <= 17 * MS <= first.load.high["tpot_mean_ns"]
    assert advised.as_result().column("before_step_ns")[0] is None


def test_a_client_that_delays_requests(make_run):
    load = served(1_000, 20, in_flight=2)
    first = advised_of(make_run, load, concurrency=2).advice[0]
    assert first.candidate.changes == ("batch limit=4",)
    assert first.candidate.place == "client: requests queue before sending"
    # Intended for a burst load.
    assert advised_of(make_run, load, concurrency=2, arrival="burst").advice == ()


def test_a_load_that_is_served_at_once(make_run):
    advised = advised_of(make_run, served(8, 200), limit=8)
    assert advised == Advised(0, 0, (), (), has_trace=False)


def test_the_outcome_of_a_load(make_run, cli):
    loads = {"slow": (served(2, 30), 2), "quick": (served(4, 30), 4)}
    for name, (requests, limit) in loads.items():
        advised_of(make_run, requests, limit=limit, arrival=name)
    folder = make_run("other").parent
    slow, quick = (folder / name for name in loads)
    (row,) = cli("advise", slow, "--against", quick, "--format", "json").json()
    assert (row["figure"], row["change"]) == ("mean TTFT", "batch limit=4")
    before, after = (mean_ttft_ns(requests) for requests, _ in loads.values())
    assert row["measured_gain_pct"] == pytest.approx(100 * (1 - after / before))
    assert row["measured_low_pct"] <= row["measured_gain_pct"] <= row["measured_high_pct"]
    assert row["outcome"] == "holds"
    # The same load again has no gain and no noise.
    same = cli("advise", slow, "--against", slow, "--format", "json")
    assert same.json()[0]["measured_gain_pct"] == pytest.approx(0)


def test_requests_that_name_no_steps(make_run):
    requests = [one | {"steps": None} for one in served(2, 30)]
    server = {"launch": "vllm serve tiny --max-num-seqs 2 --port 1"}
    load = LOAD | {"arrival": "constant:30", "server": server}
    folder = make_run("served", requests, stage="serve", engine="vllm", load=load)
    with tracekit.open(folder, cache=False) as trace:
        advised = trace.advise()
    assert advised.advice == ()
    assert [seen.rule for seen, _ in advised.undecided] == ["advice_serving_queue"]
