"""Several small training runs in the same processes, because imports take longer than training.

`python training_ranks.py FOLDER DEVICE` (`cpu` or `cuda`), under RANK and WORLD_SIZE.
FOLDER/cases.json has the arguments of each run by name; FOLDER/<name> becomes its run folder.
"""

import gc
import json
import os
import sys
from pathlib import Path

import torch

from tracekit import manifest
from tracekit.collectors.loop.report import read_reports
from tracekit.collectors.process.distributed import barrier, device_of, place_in, process_group
from tracekit.collectors.training.engines import deepspeed as deepspeed_engine
from tracekit.collectors.training.result import RankResult, make_manifest
from tracekit.collectors.training.spec import make_spec
from tracekit.collectors.training.train import train


def main(folder, kind):
    place = place_in(os.environ)
    device = device_of(place) if kind == "cuda" else torch.device("cpu")
    gc.collect()
    gc.freeze()  # so that later collections skip the objects of the frameworks
    with process_group(place, device, folder / "store"):
        for name, values in json.loads((folder / "cases.json").read_text("utf-8")).items():
            # Small models are otherwise created before they are sharded.
            is_sharded_early = name == "sharded while made"
            deepspeed_engine.WHOLE_MODEL_SHARE = 0.0 if is_sharded_early else 1.0
            spec = make_spec(values, ["test"], world_size=place.world_size)
            result = RankResult(rank=place.rank, world_size=place.world_size)
            try:
                train(spec, place, device, folder / name, result, lambda _: None)
            except Exception as error:
                error.add_note(f"in the run {name!r}")
                raise
            result.write(folder / name / "logs")
            gc.collect()
            barrier(device)
            if place.rank == 0:
                results = read_reports(folder / name / "logs", RankResult)
                manifest.write(make_manifest(spec, results), folder / name)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
