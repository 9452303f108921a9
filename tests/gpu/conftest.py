"""What the tests of a GPU share: the device, and what becomes of claims and of a lost context.

Nothing here needs the other tests' fixtures, so that the folder can be carried: see
`evaluations/gpu_pack`.

Environment:
    TRACEKIT_GPU_TESTS_OUT: a folder that keeps the run folders, and tables as Markdown.
    TRACEKIT_GPU_TESTS_UNTIL: Unix time after which no test begins.
"""

import os
import sys
import time
from pathlib import Path

import pytest
from devices import PROGRAMS
from trial import Trial

# Behind all else: some of the programs have names that packages might have.
sys.path.append(str(PROGRAMS))

_trial = pytest.StashKey[Trial]()


def pytest_itemcollected(item):
    """Allow warnings of libraries, whose versions are the host's; run on the CPU only nightly."""
    item.add_marker(pytest.mark.filterwarnings("default"))
    if item.get_closest_marker("gpu") is None:
        item.add_marker(pytest.mark.nightly("checks the GPU tests themselves, on the CPU"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Fail a test whose claims do not hold, with all of them."""
    broken = item.stash[_trial].broken if _trial in item.stash else []
    try:
        result = yield
    except Exception as error:
        for text in broken:
            error.add_note(f"does not hold: {text}")
        raise
    if broken:
        pytest.fail("\n".join(broken), pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """End the process when its CUDA context is lost: pytest-xdist starts another for the rest."""
    report = yield
    if call.excinfo is not None and is_context_lost(call.excinfo.value):
        sys.__stderr__.write(f"{item.nodeid}\n{report.longreprtext}\n")
        if "PYTEST_XDIST_WORKER" in os.environ:
            os._exit(1)
        pytest.exit("the CUDA context is lost: no later test could be believed", returncode=1)
    return report


def is_context_lost(error):
    """Tell whether an error leaves the CUDA context of this process unusable."""
    # What a command said of an error of its own is no RuntimeError here.
    if not isinstance(error, RuntimeError) or "out of memory" in str(error):
        return False
    return type(error).__name__ == "AcceleratorError" or "CUDA error" in str(error)


@pytest.fixture
def device(request):
    """Return the device that the test is for, or skip with the reason."""
    torch = pytest.importorskip("torch")
    if time.time() > float(os.environ.get("TRACEKIT_GPU_TESTS_UNTIL", "inf")):
        pytest.skip("no time was left")
    if request.param == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device, and torch sees none here")
    is_alone = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) == 1
    if request.node.get_closest_marker("alone") and not is_alone:
        pytest.skip("measures times: needs the device to itself (pytest -m 'gpu and alone' -n 0)")
    return torch.device("cuda", 0)


@pytest.fixture
def trial(request, device, tmp_path, tmp_path_factory, record_property):
    """Return what runs things on the device, and takes claims and figures."""
    out = os.environ.get("TRACEKIT_GPU_TESTS_OUT") or tmp_path_factory.getbasetemp() / "gpu"
    runs = Path(out) / "runs" / device.type
    runs.mkdir(parents=True, exist_ok=True)
    request.node.stash[_trial] = Trial(device, runs, tmp_path, record_property)
    return request.node.stash[_trial]
