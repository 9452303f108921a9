"""What a training run left: its trace adds up, is linked and placed."""

from __future__ import annotations

from evidence._records import Record, SkippedError
from evidence._setting import Setting
from evidence._trace_checks import check_training


def run(setting: Setting, record: Record) -> None:
    """Check the trace of a run that another item made."""
    folder = setting.runs_folder / setting.arguments["run"].replace(" ", "_")
    with record.case(setting.item) as case:
        if not (folder / "rank0.json.gz").is_file():
            raise SkippedError("the run left no trace")
        opt = setting.arguments["opt"]
        check_training(case, folder, opt, has_cuda=setting.host.has_cuda)
