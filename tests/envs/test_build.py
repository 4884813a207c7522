"""Real uv, a real index on loopback, tiny wheels: what is built is what was asked for, or nothing is."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from envs import backend, build, fingerprint, machine, outlook, pylock, resolve, spec, verify
from envs.errors import CannotBuildError, CannotRunError, UsageError
from envs.store import Store

from . import stubs

pytestmark = [pytest.mark.uv, pytest.mark.socket]

ROOT = Path(__file__).parents[2]
VERSION = "2.12.0.dev20260215"
WHEEL = f"{VERSION}+cu130"


@pytest.fixture
def torch_index(tmp_path):
    """The index of a variant: torch, triton, and an old copy of a common package."""
    index = stubs.Index(tmp_path / "torch-index", hashes=False)
    stubs.torch(index.project("torch"), WHEEL, requires=["triton==3.6.0+git98", "leaf"])
    stubs.wheel(index.project("triton"), "triton", "3.6.0+git98")
    stubs.wheel(index.project("leaf"), "leaf", "0.1")
    with stubs.serving(index):
        yield index


@pytest.fixture
def default_index(tmp_path):
    """The index of everything else."""
    index = stubs.Index(tmp_path / "default-index")
    stubs.wheel(index.project("leaf"), "leaf", "2.0")
    stubs.wheel(index.project("triton"), "triton", "3.6.0")
    with stubs.serving(index):
        yield index


@pytest.fixture
def places(tmp_path, torch_index, default_index, monkeypatch):
    """Settings for both indexes, with an empty cache of uv."""
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    return stubs.places(tmp_path, index=torch_index.url, default_index=default_index.url)


def built(definition, places, lines=None):
    return build.build(definition, places, report=(lines if lines is not None else []).append)


def left_over(places):
    store = places.store
    return [*(store / "building").glob("*"), *(store / "environments").glob("*")]


def test_only_torch_and_its_family_come_from_its_index(places):
    """B21: that index mirrors old copies of common packages, and they must not win."""
    environment = built(stubs.definition(), places)

    assert environment.fingerprint.torch == WHEEL
    assert environment.fingerprint.cuda == "13.0"
    assert environment.fingerprint.git_version == "0" * 40
    assert {"leaf==2.0", "triton==3.6.0+git98", f"torch=={WHEEL}"} == set(environment.fingerprint.distributions)
    assert not environment.cached
    assert environment.python.exists()
    assert environment.fingerprint.torch_file.startswith(str(environment.path))


def test_what_torch_needs_is_read_from_its_metadata(places, torch_index):
    """Older nightlies call triton pytorch-triton; taking both, or the wrong one, is another environment."""
    torch_index.metadata = True
    stubs.torch(torch_index.project("torch"), WHEEL, requires=["pytorch-triton==3.5.0+git1", "leaf"])
    stubs.wheel(torch_index.project("pytorch-triton"), "pytorch-triton", "3.5.0+git1")

    environment = built(stubs.definition(), places)

    assert {"leaf==2.0", "pytorch-triton==3.5.0+git1", f"torch=={WHEEL}"} == set(environment.fingerprint.distributions)


def test_cuda_library_that_only_torchs_index_has(places, torch_index):
    """A nightly may pin a CUDA library before it is on the default index; nothing else is taken from there."""
    torch_index.metadata = True
    stubs.torch(torch_index.project("torch"), WHEEL, requires=["nvidia-nccl-cu13==2.99", "leaf"])
    stubs.wheel(torch_index.project("nvidia-nccl-cu13"), "nvidia-nccl-cu13", "2.99")

    environment = built(stubs.definition(), places)

    assert {"leaf==2.0", "nvidia-nccl-cu13==2.99", f"torch=={WHEEL}"} == set(environment.fingerprint.distributions)


def test_wheelhouse_with_half_a_wheel(tmp_path):
    """A copy that was cut short is named."""
    house = tmp_path / "house"
    path = stubs.torch(house, WHEEL)
    path.write_bytes(path.read_bytes()[:100])

    with pytest.raises(CannotBuildError, match="is not a wheel"):
        built(stubs.definition(), stubs.places(tmp_path, wheelhouse=house, offline=True))


def test_second_time_it_is_there(places, torch_index, default_index):
    """A cached environment is ready at once and asks no index."""
    first = built(stubs.definition(), places)
    torch_index.requests.clear()
    default_index.requests.clear()

    second = built(stubs.definition(), places)

    assert (second.cached, second.digest, second.path) == (True, first.digest, first.path)
    assert second.fingerprint == first.fingerprint
    assert torch_index.requests == default_index.requests == []
    assert outlook.is_built(stubs.definition(), places)


def test_offline(places):
    """Everything that was built once works without a network, and what was not says why."""
    built(stubs.definition(), places)
    offline = replace(places, offline=True)

    assert built(stubs.definition(), offline).cached
    with pytest.raises(CannotBuildError, match="the network is off") as caught:
        built(stubs.definition("2.12.0.dev20260216"), offline)
    assert caught.value.outcome == "download_failed"


def test_rebuilt_offline_from_the_cache_of_uv(places):
    """A pruned environment is built again from what uv has cached, without a network."""
    first = built(stubs.definition(), places)
    Store(places.store).remove(first.digest)

    again = built(stubs.definition(), replace(places, offline=True))

    assert (again.digest, again.cached) == (first.digest, False)


def test_wrong_build_is_noticed_and_not_kept(places, torch_index):
    """D02, D04: an index that serves another torch under this name is the commonest contamination."""
    stubs.torch(torch_index.project("torch"), WHEEL, says="2.11.0+cu130")

    with pytest.raises(CannotBuildError, match=f"asked for torch {VERSION}.*got torch 2.11.0") as caught:
        built(stubs.definition(requirements=()), places)

    assert caught.value.outcome == "wrong_build"
    assert left_over(places) == []


def test_another_cuda_under_the_same_number_is_noticed(places, torch_index):
    """D04: x.y.z is equal and the CUDA major is not."""
    stubs.torch(torch_index.project("torch"), WHEEL, cuda="12.8")

    with pytest.raises(CannotBuildError, match=r"asked for CUDA 13\.0, torch was built with 12\.8") as caught:
        built(stubs.definition(requirements=()), places)

    assert caught.value.outcome == "wrong_build"


def test_torch_that_cannot_be_imported_is_an_answer(places, torch_index):
    """Whether a broken import is the hunted failure is for the search to say, so the environment stays."""
    code = "raise ImportError('libcudnn.so.9: undefined symbol: ncclMemFree')"
    stubs.torch(torch_index.project("torch"), WHEEL, code=code)

    environment = built(stubs.definition(requirements=()), places)

    assert environment.fingerprint.torch == ""
    assert "undefined symbol: ncclMemFree" in environment.fingerprint.torch_error
    assert "ncclMemFree" in environment.fingerprint.torch_traceback


def test_torch_that_kills_the_interpreter_is_an_answer(places, torch_index):
    """A segfault at import leaves no JSON; it must not look like a bug of the tool."""
    code = "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)"
    stubs.torch(torch_index.project("torch"), WHEEL, code=code)

    environment = built(stubs.definition(requirements=()), places)

    assert f"ended with {-signal.SIGSEGV}" in environment.fingerprint.torch_error


def test_environment_does_not_see_the_surroundings(places, tmp_path, monkeypatch):
    """D16, F12: PYTHONPATH, the user site, a user's uv.toml and index variables change what is built."""
    planted = tmp_path / "planted"
    stubs.torch(planted, "9.9")
    (planted / "torch.py").write_text("__version__ = '9.9'")
    home = tmp_path / "home"
    (home / ".config" / "uv").mkdir(parents=True)
    (home / ".config" / "uv" / "uv.toml").write_text('[[index]]\nurl = "http://127.0.0.1:9/none"\ndefault = true\n')
    for name, value in {
        "HOME": str(home),
        "PYTHONPATH": str(planted),
        "UV_INDEX_URL": "http://127.0.0.1:9/none",
        "UV_DEFAULT_INDEX": "http://127.0.0.1:9/none",
        "UV_PYTHON": "3.8",
        "UV_LINK_MODE": "hardlink",
        "VIRTUAL_ENV": str(planted),
        "PIP_INDEX_URL": "http://127.0.0.1:9/none",
    }.items():
        monkeypatch.setenv(name, value)

    environment = built(stubs.definition(), places)

    assert environment.fingerprint.torch == WHEEL
    assert environment.fingerprint.outside == ()
    assert not environment.fingerprint.user_site


def test_files_are_copies(places, tmp_path):
    """A file that is a hard link into uv's cache is changed in every environment at once."""
    environment = built(stubs.definition(), places)

    assert Path(environment.fingerprint.torch_file).stat().st_nlink == 1


def test_environment_works_where_it_finally_is(places, torch_index):
    """It is built under another name: scripts and paths must follow the rename."""
    files = {
        "torch/__init__.py": stubs.TORCH.format(version=WHEEL, cuda="13.0", git="1"),
        f"torch-{WHEEL}.dist-info/entry_points.txt": "[console_scripts]\ntorchrun = torch:main\n",
    }
    files["torch/__init__.py"] += "\ndef main():\n    print('ran', __file__)\n"
    stubs.wheel(torch_index.project("torch"), "torch", WHEEL, tag=stubs.TAG, files=files)

    environment = built(stubs.definition(requirements=()), places)
    ran = subprocess.run([environment.path / "venv/bin/torchrun"], capture_output=True, text=True, check=True)

    assert ran.stdout.startswith(f"ran {environment.path}")


def test_version_that_is_not_there(places):
    """B02: the answer names what the index has, and why old nightlies are gone."""
    with pytest.raises(CannotBuildError, match=r"torch 2\.12\.0\.dev20250101 is not at") as caught:
        built(stubs.definition("2.12.0.dev20250101"), places)

    assert caught.value.outcome == "not_published"
    assert WHEEL in caught.value.hint
    assert left_over(places) == []


def test_date_without_a_wheel_for_this_python(places, torch_index):
    """B08: 'not for this Python' is another answer than 'not built that day'."""
    stubs.torch(torch_index.project("torch"), "2.12.0.dev20260216+cu130", tag="cp39-cp39-manylinux_2_17_x86_64")

    with pytest.raises(CannotBuildError, match="other Python") as caught:
        built(stubs.definition("2.12.0.dev20260216"), places)

    assert caught.value.outcome == "not_published"


def test_newest_nightly_and_the_one_of_a_date(places, torch_index):
    """`train-nightly` takes the newest; a wheel for another Python does not make a date newer."""
    stubs.torch(torch_index.project("torch"), "2.12.0.dev20260217+cu130")
    stubs.torch(torch_index.project("torch"), "2.12.0.dev20260218+cu130", tag="cp39-cp39-manylinux_2_17_x86_64")
    newest = stubs.definition(torch="")

    assert resolve.newest(newest, places).torch == "2.12.0.dev20260217"
    assert resolve.newest(newest, places, date="20260215").torch == VERSION
    with pytest.raises(CannotBuildError, match="no nightly of 20260301"):
        resolve.newest(newest, places, date="20260301")


def test_newest_nightly_offline(places, torch_index):
    """Without a network the newest is the newest that was built here."""
    built(stubs.definition(torch=""), places)
    stubs.torch(torch_index.project("torch"), "2.12.0.dev20260217+cu130")

    environment = built(stubs.definition(torch=""), replace(places, offline=True))

    assert (environment.fingerprint.torch, environment.cached) == (WHEEL, True)
    assert built(stubs.definition(torch=""), places).fingerprint.torch == "2.12.0.dev20260217+cu130"


def test_driver_too_old_before_the_download(places, torch_index, monkeypatch):
    """F02: blocked before a byte is downloaded, and the override is named."""
    old = backend.Machine(architecture="x86_64", glibc="2.36", driver="570.133")
    monkeypatch.setattr(machine, "ask", lambda: old)

    with pytest.raises(CannotRunError, match="cu130 needs an NVIDIA driver") as caught:
        built(stubs.definition(), places)

    assert caught.value.outcome == "driver_too_old"
    assert "ENVS_ANY_DRIVER=1" in caught.value.hint
    assert torch_index.requests == []
    assert left_over(places) == []
    assert built(stubs.definition(), replace(places, any_driver=True)).fingerprint.torch == WHEEL


def test_pinned_dependency_that_is_gone(places, torch_index):
    """B16: every build of the range has this; it is not 'this torch does not exist'."""
    stubs.torch(torch_index.project("torch"), WHEEL, requires=["cudnn-stub==9.1.0.70"])

    with pytest.raises(CannotBuildError) as caught:
        built(stubs.definition(requirements=()), places)

    assert caught.value.outcome == "resolution_conflict"
    assert "cudnn-stub" in caught.value.message


def test_other_bytes_than_locked(places, torch_index, tmp_path, monkeypatch):
    """B12: a mirror that serves other bytes for a version is a build problem, not a network problem."""
    locked = resolve.lock_for(stubs.definition(), places)
    stubs.torch(torch_index.project("torch"), WHEEL, git="1" * 40)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "another-cache"))

    with pytest.raises(CannotBuildError) as caught:
        built(stubs.definition(), places)

    assert locked.distributions
    assert caught.value.outcome == "build_failed"
    assert "torch" in caught.value.message
    assert left_over(places) == []


def test_no_network(tmp_path, monkeypatch):
    """One line that says what to do, and nothing left behind."""
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    nowhere = stubs.places(tmp_path, index="http://127.0.0.1:9/whl", default_index="http://127.0.0.1:9/simple")

    with pytest.raises(CannotBuildError, match=r"cannot reach http://127\.0\.0\.1:9/whl/torch/") as caught:
        built(stubs.definition(), nowhere)

    assert caught.value.outcome == "download_failed"
    assert "--wheelhouse" in caught.value.hint
    assert left_over(nowhere) == []


def test_index_lost_between_lock_and_install(places, tmp_path, monkeypatch):
    """A lock that resolved yesterday and an index that is down today: download_failed, nothing half-made."""
    definition = stubs.definition(requirements=())
    resolved = resolve.lock_for(definition, places)
    nowhere = stubs.places(tmp_path, index="http://127.0.0.1:9/whl", default_index="http://127.0.0.1:9/simple")
    Store(nowhere.store).keep_resolved(resolve.resolution_key(definition, nowhere), pylock.to_toml(resolved))

    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "another-cache"))
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")

    with pytest.raises(CannotBuildError) as caught:
        built(definition, nowhere)

    assert caught.value.outcome == "download_failed"
    assert left_over(nowhere) == []


def test_wheelhouse_alone(tmp_path, monkeypatch):
    """A cluster without network has a directory of wheels and nothing else."""
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    house = tmp_path / "house"
    stubs.torch(house, WHEEL, requires=["triton==3.6.0+git98"])
    stubs.wheel(house, "triton", "3.6.0+git98")
    stubs.wheel(house, "leaf", "3.0")
    nowhere = stubs.places(tmp_path, wheelhouse=house, default_index="http://127.0.0.1:9/simple", offline=True)

    environment = built(stubs.definition(exclude_newer="2026-01-01"), nowhere)

    assert {"leaf==3.0", "triton==3.6.0+git98", f"torch=={WHEEL}"} == set(environment.fingerprint.distributions)


def test_wheelhouse_and_the_committed_lock(tmp_path):
    """A directory of wheels changes what a shipped definition means only when it holds that very torch."""
    house = tmp_path / "house"
    stubs.torch(house, WHEEL)
    places = stubs.places(tmp_path, wheelhouse=house)
    shipped = spec.load("cu130")
    assert resolve.known_lock(shipped, places) == resolve.committed_lock(shipped)

    stubs.torch(house, "2.11.0", says="2.11.0+cu130")

    assert resolve.known_lock(shipped, places) is None


def test_wheelhouse_beside_an_index(places, tmp_path):
    """Wheels on disk win for torch; what they lack comes from the default index."""
    house = tmp_path / "house"
    stubs.torch(house, "2.11.0", says="2.11.0+cu130", git="2" * 40)
    with_house = stubs.places(tmp_path, wheelhouse=house, default_index=places.default_index)

    environment = built(stubs.definition("2.11.0"), with_house)

    assert environment.fingerprint.git_version == "2" * 40
    assert "leaf==2.0" in environment.fingerprint.distributions


def test_release_from_the_default_index(places, default_index, tmp_path):
    """Where the default index serves the release as the variant, PyTorch's own index is not asked."""
    stubs.torch(default_index.project("torch"), "2.11.0", says="2.11.0+cu130")
    plain = stubs.places(tmp_path, default_index=default_index.url, torch_index="http://127.0.0.1:9/whl")

    assert built(stubs.definition("2.11.0"), plain).fingerprint.torch == "2.11.0+cu130"


def test_release_for_another_variant_from_pytorchs_index(places, torch_index, default_index, tmp_path):
    """2.11 for CUDA 12.8 is not what the default index serves under that number."""
    stubs.torch(default_index.project("torch"), "2.11.0", says="2.11.0+cu130")
    other = stubs.Index(tmp_path / "whl")
    stubs.torch(tmp_path / "whl" / "torch", "2.11.0+cu128", cuda="12.8")
    with stubs.serving(other):
        chosen = stubs.places(tmp_path, default_index=default_index.url, index=other.url)

        environment = built(stubs.definition("2.11.0", cuda="cu128"), chosen)

    assert environment.fingerprint.torch == "2.11.0+cu128"


def test_disk_that_is_too_small(places, torch_index, monkeypatch):
    """Refused with the numbers before anything is downloaded."""
    monkeypatch.setattr(machine, "free_bytes", lambda _path: 10**6)
    resolve.lock_for(stubs.definition(), places)
    torch_index.requests.clear()

    with pytest.raises(
        CannotRunError, match=r"would not fit: it needs about .* GB at .*, and 0\.0 GB are free"
    ) as caught:
        built(stubs.definition(), places)

    assert caught.value.outcome == "disk_full"
    assert torch_index.requests == []
    assert left_over(places) == []


def test_no_compiler(places, monkeypatch, tmp_path):
    """Told before the download; a cached environment is still handed out."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("CXX", raising=False)

    with pytest.raises(CannotRunError, match=r"no C\+\+ compiler"):
        build.build(stubs.definition(), places, report=[].append, require_compiler=True)
    assert left_over(places) == []
    assert built(stubs.definition(), places).fingerprint.torch == WHEEL
    assert build.build(stubs.definition(), places, report=[].append, require_compiler=True).cached


def test_an_image_without_an_engine_is_refused(places, monkeypatch, tmp_path):
    """Building the base on the host and calling it the image would be a lie."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")

    with pytest.raises(CannotRunError, match="no container engine answers"):
        built(stubs.definition(image="pytorch/pytorch"), places)


BUILDER = """
import sys
from envs import build
from tests.envs import stubs
definition = stubs.definition(requirements=())
places = stubs.places(stubs.Path(sys.argv[1]), index=sys.argv[2], default_index=sys.argv[3])
built = build.build(definition, places, report=lambda line: print(line, flush=True))
print("cached" if built.cached else "built", flush=True)
"""


def start_builder(places):
    return subprocess.Popen(
        [sys.executable, "-c", BUILDER, str(places.store.parent), places.index, places.default_index],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def slow_torch(torch_index, seconds):
    code = stubs.TORCH.format(version=WHEEL, cuda="13.0", git="3")
    stubs.torch(torch_index.project("torch"), WHEEL, code=f"import time\ntime.sleep({seconds})\n{code}")


def read_until(process, text):
    for line in process.stdout:
        if text in line:
            return
    raise AssertionError(f"{text!r} never came")


def removed_once_free(places, within_s=30.0):
    """What `remove_leftovers` removed; a child that was just being started may hold the lock a moment longer."""
    deadline = time.monotonic() + within_s
    while not (removed := Store(places.store).remove_leftovers()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return removed


def test_killed_build_never_looks_finished(places, torch_index):
    """kill -9 in the middle of a build; the next build starts anew and leaves nothing of the first."""
    slow_torch(torch_index, 30)
    process = start_builder(places)
    read_until(process, "asking the environment")
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    definition = stubs.definition(requirements=())

    assert not outlook.is_built(definition, places)
    assert len(list((places.store / "building").glob("*"))) == 1
    assert list((places.store / "environments").glob("*")) == []

    assert removed_once_free(places) == 1
    assert left_over(places) == []


def test_interrupted_build_leaves_nothing(places, torch_index):
    """Ctrl-C in the middle of a build."""
    slow_torch(torch_index, 30)
    process = start_builder(places)
    read_until(process, "asking the environment")
    process.send_signal(signal.SIGINT)
    process.communicate()

    assert process.returncode != 0
    assert left_over(places) == []


def test_second_builder_waits_for_the_first(places, torch_index):
    """Two jobs that want one environment build it once."""
    slow_torch(torch_index, 10)
    first = start_builder(places)
    read_until(first, "asking the environment")
    second = start_builder(places)
    first_said, _ = first.communicate(timeout=120)
    second_said, _ = second.communicate(timeout=120)

    assert first_said.splitlines()[-1] == "built"
    assert second_said.splitlines()[-1] == "cached"
    assert "another process is building" in second_said
    assert len(list((places.store / "environments").glob("*"))) == 1


def test_environment_whose_interpreter_is_gone_is_built_again(places):
    """The system's Python was upgraded: what points to nothing must not be handed out."""
    first = built(stubs.definition(), places)
    first.python.unlink()

    assert not outlook.is_built(stubs.definition(), places)
    assert not built(stubs.definition(), places).cached


def test_store_of_a_newer_version(places):
    """What a newer version keeps there is unknown to this one, and must not be touched."""
    places.store.mkdir()
    (places.store / "store.json").write_text(json.dumps({"schema": 2}))

    with pytest.raises(UsageError, match="written by a newer version"):
        built(stubs.definition(), places)


def test_damaged_entry_is_one_line(places):
    """A half-written or edited record is told with its path."""
    environment = built(stubs.definition(), places)
    (environment.path / "environment.json").write_text('{"schema": 1, "name": ')

    with pytest.raises(UsageError, match=r"environment\.json is unreadable"):
        built(stubs.definition(), places)


def test_removed_and_least_recently_used(places, torch_index):
    """Pruning removes whole environments and starts with the one not used for longest."""
    stubs.torch(torch_index.project("torch"), "2.12.0.dev20260216+cu130")
    old = built(stubs.definition(), places)
    new = built(stubs.definition("2.12.0.dev20260216"), places)
    os.utime(new.path, (1, 1))
    store = Store(places.store)

    assert [entry.digest for entry in store.entries()] == [new.digest, old.digest]
    assert store.remove(new.digest)
    assert left_over(places) == [old.path]
    assert not outlook.is_built(stubs.definition("2.12.0.dev20260216"), places)


def test_environment_in_use_is_not_removed(places):
    """Pruning from another shell must not take the files away under a training run."""
    environment = built(stubs.definition(), places)
    store = Store(places.store)
    code = "import sys; print('up', flush=True); sys.stdin.read()"
    running = subprocess.Popen(
        [environment.python, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    running.stdout.readline()

    refused = store.remove(environment.digest)
    running.communicate("")

    assert not refused
    assert environment.python.exists()
    assert store.remove(environment.digest)


def test_estimate_before_the_build(places):
    """What is cached by uv is not downloaded again."""
    resolved = resolve.lock_for(stubs.definition(requirements=()), places)
    sizes = sum(wheel.size for item in resolved.distributions for wheel in item.wheels)

    before = outlook.estimate(resolved, places)
    built(stubs.definition(requirements=()), places)
    after = outlook.estimate(resolved, places)

    assert sizes > 0
    assert 0 < before.download_bytes <= sizes
    assert before.disk_bytes > sizes
    assert after.cache_bytes == 0
    assert after.download_bytes == 0


def test_derived_candidate_of_a_bisection(places, torch_index):
    """A candidate is the environment of the definition around another torch."""
    stubs.torch(torch_index.project("torch"), "2.12.0.dev20260216+cu130", git="4" * 40)
    candidate = spec.with_torch(stubs.definition(), version="2.12.0.dev20260216")

    environment = built(candidate, places)

    assert environment.name == f"torch-2.12.0.dev20260216-cu130-py{stubs.PYTHON.replace('.', '')}"
    assert environment.fingerprint.git_version == "4" * 40


def test_built_environment_verifies_and_every_damage_is_named(places):
    """A planted edit, a deleted file, a planted file and a planted .pth are each found."""
    environment = built(stubs.definition(), places)
    venv = environment.path / "venv"
    memory = environment.path / "verified.json"
    pins = outlook.pins_of(environment.path)
    clean = verify.verify(venv, memory=memory, pins=pins)
    site = Path(environment.fingerprint.torch_file).parents[1]
    with (site / "torch" / "__init__.py").open("a") as file:
        file.write("# edited\n")
    (site / "leaf" / "__init__.py").unlink()
    (site / "planted.py").write_text("")
    (site / "planted.pth").write_text("import planted")
    (site / "sitecustomize.py").write_text("")

    damaged = verify.verify(venv, memory=memory, pins=pins)

    assert clean.ok, clean.findings
    base = site.relative_to(venv)
    assert {(str(item.kind), item.path) for item in damaged.findings if item.fault} == {
        ("changed", f"{base}/torch/__init__.py"),
        ("missing", f"{base}/leaf/__init__.py"),
        ("unowned", f"{base}/planted.py"),
        ("unowned", f"{base}/planted.pth"),
        ("unowned", f"{base}/sitecustomize.py"),
        ("sitecustomize", f"{base}/sitecustomize.py"),
    }
    assert [item.detail for item in damaged.findings if str(item.kind) == "pth"] == ["import planted"]


def test_fingerprint_of_this_interpreter_names_what_is_outside(tmp_path):
    """A path outside the environment is named, whatever it is."""
    answers = {
        "prefix": "/env",
        "base_prefix": "/usr",
        "sys_path": [
            "/usr/lib/python3.12",
            "/env/lib/site-packages",
            "/home/someone/lib",
            "/usr/lib/python3/dist-packages",
        ],
        "libraries": ["/env/nvidia/libcudnn.so.9", "/usr/lib/x86_64-linux-gnu/libcudnn.so.9"],
        "distributions": [],
        "entry_points": [],
        "user_site": True,
        "torch": "2.11.0+cu130",
        "cuda": "13.0",
    }

    found = fingerprint.parse(json.dumps(answers), driver="")
    differences = fingerprint.compare(spec.load("cu130"), found)

    assert found.outside == (
        "/home/someone/lib",
        "/usr/lib/python3/dist-packages",
        "/usr/lib/x86_64-linux-gnu/libcudnn.so.9",
    )
    assert {item.outcome for item in differences} == {"env_not_isolated"}
    assert len(differences) == 4


def test_hash_of_the_index_is_the_hash_in_the_lock(places, torch_index):
    """The nightly index has no hashes: what uv downloaded is what is locked from then on."""
    resolved = resolve.lock_for(stubs.definition(), places)
    (path,) = torch_index.project("torch").glob("*.whl")
    locked = {item.name: item.wheels[0].sha256 for item in resolved.distributions}

    assert locked["torch"] == hashlib.sha256(path.read_bytes()).hexdigest()
