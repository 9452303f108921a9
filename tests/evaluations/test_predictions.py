"""`make predictions` records, predicts, and reruns; times are not checked."""

import shutil

import pytest
from every_trace import REPO

pytest.importorskip("torch")

from predictions import __main__ as program
from predictions import page

SAMPLES = REPO / "sample_traces"


@pytest.mark.nightly("records and reruns a training loop seven times")
def test_a_pair_is_recorded_predicted_and_rerun():
    small = {"width": 32, "hidden": 32, "layers": 1, "batch": 2}
    pair = program.Pair("small", small | {"python": 50_000}, small, ("range=augment remove",))
    row = program.measured(pair, 1, 2)
    assert row.reason is None
    assert 0 < row.predicted_ms < row.before_ms
    assert row.low_ms <= row.predicted_ms <= row.high_ms
    assert row.after_ms > 0
    refused = program.Pair("no such range", small, small, ("range=nothing remove",))
    text = program.filled(program.PAGE.read_text("utf-8"), [row], 1, 2)
    assert row.line() in text
    assert program.filled(text, [], 1, 2).count("| small |") == 0
    assert program.measured(refused, 1, 2).reason is not None


def test_pairs_add_up_with_and_without_factors_of_the_user():
    rows = [
        program.Row("right", "range=augment x0.5", 10, 8, 7, 9, 8, 1),
        program.Row("long", "host phase=forward x2; phase=forward x2", 10, 24, 23, 25, 20, 1),
        program.Row("refused", reason="nothing tells"),
    ]
    lines = page.summary(rows).splitlines()
    assert lines[2] == "| pairs with a prediction | 2 of 3 | 1 of 2 | 1 of 1 |"
    assert lines[3] == "| median absolute error | 10.0 % | 0.0 % | 20.0 % |"
    assert lines[5] == "| worst | +20.0 % (long) | +0.0 % (right) | +20.0 % (long) |"
    assert lines[7] == "| the interval contains the measured value | 1 of 2 | 1 of 1 | 0 of 1 |"
    assert page.summary(rows[:1]).splitlines()[3].endswith("| 0.0 % | 0.0 % | – |")
    assert page.summary(rows[2:]) == "Nothing was predicted.\n"


def test_a_load_is_recorded_predicted_and_rerun(tmp_path):
    made = []

    def run(folder, options):
        made.append((folder.name, options["--concurrency"], options.get("--arrival")))
        folder.mkdir()
        for name in ("run.json", "requests.jsonl"):
            shutil.copy(SAMPLES / "serve_transformers" / name, folder)

    serving = program.serving
    four = {"--concurrency": 4}
    half = {"rate": 0.5}
    pairs = [
        serving.ServingPair("same", {}, {}, "batch limit=32"),
        serving.ServingPair("refused", {}, four, "batch limit=4", four),
        serving.ServingPair("half of 35.6 requests/s", half, half, "rate x1"),
    ]
    folders = serving.recorded(pairs, tmp_path, 2, run)
    once = [(8, None), (4, None), (8, "poisson:17.8")]
    rounds = [(f"load{place}-{n}", *load) for n in range(2) for place, load in enumerate(once)]
    assert made == [("capacity", 8, None), *rounds]
    same, refused = (serving.measured(pair, folders) for pair in pairs[:2])
    assert [abs(same.error_pct(measure)) < 3 for measure in serving.MEASURES] == [True] * 3
    assert same.noise_pct("tpot_mean_ns") == 0
    assert refused.refusal.startswith("2 of 2 refused: some ")
    text = serving.filled(program.PAGE.read_text("utf-8"), [same, refused], 2)
    assert same.line() in text
    assert "1 of 2 pairs have a prediction" in text
