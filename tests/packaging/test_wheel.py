"""A wheel from a clean clone is complete, uses only its own names, and works standalone."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

import pytest
from every_trace import REPO

# Folder in the repository → folder in the wheel.
PACKAGES = {
    "tracekit": "tracekit",
    "collectors": "tracekit/collectors",
    "queries": "tracekit/queries",
}

pytestmark = pytest.mark.nightly("builds and installs wheels")


def run(*command, cwd, **env):
    """Run a command outside this test's environment and return its stdout."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "TRACEKIT_")) and name != "VIRTUAL_ENV"
    }
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        # Little of the installed code is ever imported; PIP_COMPILE=0 disables compilation.
        env={**inherited, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_COMPILE": "0", **env},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """Return a copy of the files that git would commit, without caches and builds."""
    target = tmp_path_factory.mktemp("clone")
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", cwd=REPO)
    for name in filter(None, listed.split("\0")):
        if (REPO / name).is_file() or (REPO / name).is_symlink():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(REPO / name, target / name, follow_symlinks=False)
    return target


@pytest.fixture(scope="module")
def wheel(clone, tmp_path_factory):
    """Return the wheel built from the clone via a source distribution, as in a release.

    Uses the installed setuptools, if any; installing tracekit, as in `make demo`, downloads the
    required one.
    """
    out = tmp_path_factory.mktemp("wheel")
    there = ["--no-isolation"] if find_spec("setuptools") else []
    run(sys.executable, "-m", "build", *there, "--outdir", out, clone, cwd=out, CFLAGS="-O0")
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Return the bin folder of a fresh environment with the wheel and its core dependencies."""
    environment = tmp_path_factory.mktemp("installed") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=environment.parent)
    run(
        *(sys.executable, "-m", "pip", "--python", environment / "bin" / "python"),
        *("install", "-q", "--constraint", REPO / "constraints.txt", wheel),
        cwd=environment.parent,
    )
    return environment / "bin"


def sources(clone):
    """Return the names in the wheel of everything that has to be in it."""
    return {
        str(PurePosixPath(inside) / path.relative_to(clone / folder).as_posix())
        for folder, inside in PACKAGES.items()
        for path in (clone / folder).rglob("*")
        if path.suffix in {".css", ".js", ".py", ".pyi", ".sql", ".toml", ".typed"}
        or path.name == "AGENTS.md"
    }


def test_the_source_distribution_contains_the_checked_files(wheel):
    (packed,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(packed) as archive:
        names = {PurePosixPath(*PurePosixPath(name).parts[1:]) for name in archive.getnames()}
    assert PurePosixPath("constraints.txt") in names
    native = {
        PurePosixPath(path.relative_to(REPO).as_posix())
        for path in (REPO / "native").rglob("*.[ch]")
    }
    assert native <= names


def test_core_dependencies_are_bounded_and_locked():
    """The next major version of a dependency may be incompatible."""
    project = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))["project"]
    lines = (REPO / "constraints.txt").read_text("utf-8").splitlines()
    locked = dict(line.lower().split("==") for line in lines if "==" in line)
    for requirement in project["dependencies"]:
        found = re.fullmatch(r"([\w-]+)>=([\d.]+),<(\d+)", requirement)
        assert found, requirement
        name, least, below = found.groups()
        version = [int(part) for part in re.findall(r"\d+", locked[name.lower()])]
        assert [int(part) for part in least.split(".")] <= version < [int(below)]


def test_a_clone_is_a_complete_package(clone):
    """`python -m tracekit` and the README's example run in the clone's folder, too."""
    script = """if True:
        import tracekit.collectors, tracekit.queries
        print(tracekit.collectors.__file__, tracekit.queries.__file__, sep="\\n")
    """
    printed = run(sys.executable, "-S", "-c", script, cwd=clone).split()
    assert printed == [
        str(clone / "tracekit" / folder / "__init__.py") for folder in ("collectors", "queries")
    ]


def test_the_wheel_contains_exactly_the_modules_and_queries(clone, wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if not name.endswith("/")}
    metadata = {name for name in names if PurePosixPath(name).parts[0].endswith(".dist-info")}
    wanted = sources(clone)
    assert any(name.endswith(".sql") for name in wanted)
    assert names - metadata == wanted | {"tracekit/_native.so"}
    assert any(name.endswith("licenses/LICENSE") for name in metadata)
    # One wheel for every Python of a system.
    assert re.fullmatch(r"tracekit_llm-[^-]+-py3-none-(?!any).+\.whl", wheel.name)


def test_top_level_names(wheel):
    tops = {PurePosixPath(name).parts[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"tracekit"}


def test_the_installed_command_runs(installed, sample_trace, tmp_path):
    cache = {"TRACEKIT_CACHE_DIR": str(tmp_path / "cache")}
    version = run(
        *(installed / "python", "-c", "import tracekit; print(tracekit.__version__)"), cwd=tmp_path
    )
    assert version.strip() in run(installed / "tracekit", "--version", cwd=tmp_path)
    shown = run(
        *(installed / "tracekit", "breakdown", sample_trace, "--format", "json"),
        cwd=tmp_path,
        **cache,
    )
    assert json.loads(shown)["timeline"]


def test_the_installed_queries_are_found(clone, installed, tmp_path):
    script = """if True:
        from importlib.resources import as_file, files
        with as_file(files("tracekit.queries")) as root:
            for path in sorted(root.rglob("*.sql")):
                print("tracekit/queries/" + path.relative_to(root).as_posix())
    """
    found = set(run(installed / "python", "-c", script, cwd=tmp_path).split())
    assert found == {name for name in sources(clone) if name.endswith(".sql")}


def test_only_the_core_is_installed(installed, tmp_path):
    heavy = ["numpy", "pandas", "polars", "pyarrow", "torch"]
    script = f"import importlib.util as u; print([n for n in {heavy} if u.find_spec(n)])"
    assert run(installed / "python", "-c", script, cwd=tmp_path).strip() == "[]"


def test_ranks_of_an_installed_tracekit_do_not_import_from_the_current_folder(installed, tmp_path):
    """A clone of this repository is a folder that holds a folder `tracekit`."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    (tmp_path / "tracekit").mkdir()
    for name in ("tracekit/__init__.py", "torch.py", "json.py"):
        (tmp_path / name).write_text("raise SystemExit('taken from the current folder')\n")
    # The environment has only the core; the rest comes from the test environment.
    packages = {"PYTHONPATH": str(Path(torch.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    printed = run(
        *(installed / "tracekit", "sweep", "--opt", "Naive", "--nproc", "1", "--layers", "1"),
        *("--seq-len", "16", "--warmup", "1", "--steps", "1", "--repeats", "1"),
        *("--profile-steps", "1", "--out", "runs", "--format", "json"),
        cwd=tmp_path,
        **packages,
    )
    assert [row["outcome"] for row in json.loads(printed)] == ["ok"]


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no cc")
def test_random_input_of_the_library_under_sanitizers(tmp_path):
    """`make fuzz` does so for longer."""
    command = re.search(r"^SANITIZE := (.*)$", (REPO / "Makefile").read_text("utf-8"), re.MULTILINE)
    sources = sorted((REPO / "native").rglob("*.c"))
    program = tmp_path / "fuzz_native"
    run("cc", *command[1].split(), "-o", program, "tests/fuzz/native.c", *sources, cwd=REPO)
    assert " cases" in run(program, "5", "1", cwd=tmp_path)


def test_without_a_compiler_the_build_requires_ziglang(tmp_path):
    """A compiler that $CC names, or the command cc, is taken instead."""
    script = "import build_native as b; print(b.get_requires_for_build_wheel())"
    given = {"PYTHONPATH": str(REPO / "native"), "PATH": str(tmp_path)}
    assert "ziglang" in run(sys.executable, "-c", script, cwd=REPO, **given, CC="")
    assert "ziglang" not in run(sys.executable, "-c", script, cwd=REPO, **given, CC="gcc")
    (tmp_path / "cc").touch(mode=0o755)
    assert "ziglang" not in run(sys.executable, "-c", script, cwd=REPO, **given, CC="")
