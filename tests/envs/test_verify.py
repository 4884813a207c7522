"""What a freeze does not see is seen."""

import os
import time

import pytest

from envs import expected, verify
from envs.errors import UsageError
from envs.findings import unexpected
from envs.lock import Pin, Source
from envs.step import Action, HistoryStep

from .stubs import record_hash

SITE = "lib/python3.11/site-packages"


@pytest.fixture
def venv(tmp_path):
    directory = tmp_path / "venv"
    (directory / SITE).mkdir(parents=True)
    (directory / "bin").mkdir()
    (directory / "bin" / "python3.11").write_text("")
    (directory / "bin" / "activate").write_text("")
    (directory / "pyvenv.cfg").write_text("")
    return directory


def install(venv, name, version, files, *, write=True):
    """What an installer does: write the files, and a RECORD of them."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    rows = []
    for path, text in files.items():
        target = venv / SITE / path
        if write:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        rows.append(f"{path},{record_hash(text)},{len(text)}\n")
    (venv / SITE / info).mkdir()
    (venv / SITE / info / "RECORD").write_text("".join([*rows, f"{info}/RECORD,,\n"]))


def faults(found):
    return {(str(item.kind), item.path.removeprefix(f"{SITE}/")) for item in found.findings if item.fault}


def notes(found):
    return {(str(item.kind), item.path.removeprefix(f"{SITE}/")) for item in found.findings if not item.fault}


def test_clean_environment(venv):
    """A fault that is always there is soon ignored."""
    install(venv, "a", "1", {"a/__init__.py": "1", "../../../bin/a": "#!", "../../../share/man/a.1": "x"})
    (venv / SITE / "a" / "__pycache__").mkdir()
    (venv / SITE / "a" / "__pycache__" / "__init__.cpython-311.pyc").write_text("code")

    found = verify.verify(venv)

    assert found.ok, found.findings
    assert found.findings == ()


def test_library_deleted_by_uninstalling_another_wheel(venv):
    """Two wheels own one path; uninstalling one deletes it, and the installer's own check says all is well."""
    library = "nvidia/nccl/lib/libnccl.so.2"
    install(venv, "nvidia-nccl-cu12", "2.27.5", {library: "new"})
    (venv / SITE / library).unlink()

    found = verify.verify(venv)

    assert faults(found) == {("missing", library)}
    assert found.findings[0].owners == ("nvidia-nccl-cu12==2.27.5",)


def test_two_owners_with_different_content(venv):
    """D11: the last one installed wins, and the other one's torch loads it."""
    library = "nvidia/nccl/lib/libnccl.so.2"
    install(venv, "nvidia-nccl-cu11", "2.14.3", {library: "old"})
    install(venv, "nvidia-nccl-cu12", "2.27.3", {library: "new"})

    found = verify.verify(venv)

    assert faults(found) == {("doubly_owned", library), ("mixed", "nvidia-nccl")}
    mixed = next(item for item in found.findings if item.kind is verify.Kind.MIXED)
    assert mixed.owners == ("nvidia-nccl-cu11==2.14.3", "nvidia-nccl-cu12==2.27.3")
    assert "overwrite each other" in mixed.detail


def test_shared_file_with_the_same_content_is_a_note(venv):
    """Clean CUDA 12 environments share an empty nvidia/__init__.py."""
    install(venv, "nvidia-cublas-cu12", "12.6", {"nvidia/__init__.py": ""})
    install(venv, "nvidia-cudnn-cu12", "9.5", {"nvidia/__init__.py": ""})

    found = verify.verify(venv)

    assert found.ok
    assert notes(found) == {("shared", "nvidia/__init__.py")}


def test_changed_file(venv):
    """An edit in place, as with hard links into a cache that another environment shares."""
    install(venv, "a", "1", {"a/__init__.py": "1"})
    (venv / SITE / "a" / "__init__.py").write_text("2")

    assert faults(verify.verify(venv)) == {("changed", "a/__init__.py")}


def test_files_of_nobody(venv):
    """Leftovers switch torch's kernels merely by being importable; bytecode without a source is code too."""
    install(venv, "a", "1", {"a/__init__.py": "1"})
    (venv / SITE / "cutlass").mkdir()
    (venv / SITE / "cutlass" / "__init__.py").write_text("")
    (venv / SITE / "a" / "__pycache__").mkdir()
    (venv / SITE / "a" / "__pycache__" / "gone.cpython-311.pyc").write_text("")
    (venv / "bin" / "torchrun").write_text("")

    found = verify.verify(venv)

    assert {item.path for item in found.findings} == {
        f"{SITE}/cutlass/__init__.py",
        f"{SITE}/a/__pycache__/gone.cpython-311.pyc",
        "bin/torchrun",
    }
    assert {item.kind for item in found.findings} == {verify.Kind.UNOWNED}


def test_code_that_runs_at_every_start(venv):
    """A .pth of an installed package is told even when it is recorded; nobody owns a sitecustomize."""
    install(venv, "dsl", "4.5", {"dsl.pth": "import sys; sys.path.insert(0, 'x')"})
    (venv / SITE / "usercustomize").mkdir()
    (venv / SITE / "usercustomize" / "__init__.py").write_text("")

    found = verify.verify(venv)

    assert ("pth", "dsl.pth") in notes(found)
    assert any("sys.path.insert" in item.detail for item in found.findings)
    assert ("sitecustomize", "usercustomize") in faults(found)


def test_distribution_without_a_record(venv):
    """What cannot be checked is said, not passed over."""
    (venv / SITE / "ghost-1.dist-info").mkdir()

    assert faults(verify.verify(venv)) == {("no_record", "ghost-1.dist-info/RECORD")}


def test_installed_against_locked(venv):
    """D02: the serving stack replaced torch; the records of the new one are all in order."""
    install(venv, "torch", "2.9.1", {"torch/__init__.py": "1"})
    install(venv, "flashinfer-python", "0.6.3", {"flashinfer/__init__.py": "1"})

    def pin(name, version):
        return Pin(name=name, version=version, source=Source.DEFAULT, filename="x", sha256="x")

    found = verify.verify(venv, pins=[pin("torch", "2.10.0"), pin("triton", "3.6.0")])

    assert {item.path: item.detail for item in found.findings} == {
        "torch": "locked 2.10.0, installed 2.9.1",
        "triton": "locked 3.6.0, not installed",
        "flashinfer-python": "0.6.3 is installed and not in the lock",
    }
    assert {item.kind for item in found.findings} == {verify.Kind.UNEXPECTED}


LIBRARY = "nvidia/nccl/lib/libnccl.so.2"


@pytest.fixture
def contaminated(tmp_path, venv):
    """What a history leaves: two owners of one library, a deleted one, a .pth and a module of nobody; noted."""
    install(venv, "nvidia-nccl-cu12", "2.27", {LIBRARY: "twelve", "gone.so": "x"})
    install(venv, "nvidia-nccl-cu13", "2.28", {LIBRARY: "thirteen"})
    install(venv, "leftover", "1", {"leftover/__init__.py": "1"})
    (venv / SITE / "gone.so").unlink()
    (venv / SITE / "left.pth").write_text("import sys")
    expected.keep(tmp_path, PINS, [HistoryStep(action=Action.INSTALL, packages=("serving",))])
    return venv


PINS = [Pin(name="nvidia-nccl-cu12", version="2.27", source=Source.DEFAULT, filename="x", sha256="x")]


def looked(directory, venv):
    return verify.verify(venv, memory=directory / expected.MEMORY, pins=PINS, left=expected.read(directory))


def test_what_a_history_left_is_named_and_is_no_fault(tmp_path, contaminated):
    """`cu128+sglang-residue` would never verify, and a real change would be one line among two hundred."""
    found = looked(tmp_path, contaminated)

    assert found.ok, [item for item in found.findings if item.fault]
    assert {(str(item.kind), item.path.removeprefix(f"{SITE}/")) for item in found.findings if item.expected} == {
        ("doubly_owned", LIBRARY),
        ("mixed", "nvidia-nccl"),
        ("missing", "gone.so"),
        ("unowned", "left.pth"),
        ("unexpected", "leftover"),
        ("unexpected", "nvidia-nccl-cu13"),
    }


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda site: (site / "leftover/__init__.py").write_text("2"), ("changed", "leftover/__init__.py")),
        (lambda site: (site / LIBRARY).write_text("twelve"), ("changed", LIBRARY)),
        (lambda site: (site / "left.pth").write_text("import os"), ("changed", "left.pth")),
        (lambda site: (site / LIBRARY).unlink(), ("missing", LIBRARY)),
        (lambda site: (site / "new.pth").write_text(""), ("unowned", "new.pth")),
        (lambda site: (site / "left.pth").unlink(), ("unexpected", "left.pth")),
        (lambda site: (site / "gone.so").write_text("x"), ("unexpected", "gone.so")),
        (lambda site: (site / "other-1.dist-info").mkdir(), ("unexpected", "other")),
    ],
)
def test_what_was_done_after_the_history_is_a_fault(tmp_path, contaminated, change, fault):
    """An edit, a deletion or a new start-up file would hide behind what the history left."""
    change(contaminated / SITE)

    found = looked(tmp_path, contaminated)

    assert not found.ok
    assert fault in faults(found)


def test_a_history_that_overwrites_nothing_is_noted_without_reading_gigabytes(tmp_path, venv):
    """Every mix of a package search with a stray .pth would read its eight gigabytes before its first run."""
    install(venv, "a", "1", {"a/__init__.py": "1"})
    (venv / SITE / "left.pth").write_text("import sys")
    expected.keep(tmp_path, [], [HistoryStep(action=Action.WRITE_PTH, files=(("left.pth", "import sys"),))])
    left = expected.read(tmp_path)

    assert not (tmp_path / expected.MEMORY).exists()
    assert verify.verify(venv, left=left).ok
    (venv / SITE / "a/__init__.py").write_text("2")
    assert faults(verify.verify(venv, left=left)) == {("changed", "a/__init__.py")}


def test_a_damaged_note_of_a_history_is_an_error(tmp_path, contaminated):
    """Without it every leftover would be a fault, or none."""
    (tmp_path / expected.FILE_NAME).write_text('{"findings": 1}')

    with pytest.raises(UsageError, match="unreadable"):
        looked(tmp_path, contaminated)


def test_what_was_modified_since_is_all_that_is_read(tmp_path, venv, contaminated):
    """Each command would read 5 GB first, or take what a history had changed for a change of somebody's."""
    install(venv, "a", "1", {"a/__init__.py": "1", "a/b.py": "2"})
    pins = [*PINS, Pin(name="a", version="1", source=Source.DEFAULT, filename="x", sha256="x")]
    (venv / SITE / LIBRARY).write_text("of the history")
    expected.keep(tmp_path, pins, [HistoryStep(action=Action.INSTALL, packages=("serving",))])
    (tmp_path / expected.MEMORY).unlink()
    built = max(path.stat().st_ctime_ns for path in venv.rglob("*"))
    left = expected.read(tmp_path)

    untouched = verify.verify(venv, pins=pins, left=left, since_ns=built)
    (venv / SITE / "a" / "b.py").write_text("3")
    os.utime(venv / SITE / "a" / "b.py", ns=(built + 1, built + 1))
    edited = verify.verify(venv, pins=pins, left=left, since_ns=built)

    assert untouched.ok, untouched.findings
    assert faults(edited) == {("changed", "a/b.py")}
    assert edited.hashed == untouched.hashed + 1
    assert edited.hashed < verify.verify(venv, pins=pins, left=left).hashed


def test_a_file_put_back_under_its_old_time_is_read(tmp_path, venv):
    """`cp -p` of a patched file over torch's own would pass as the build, and its answer as one about it."""
    install(venv, "a", "1", {"a/__init__.py": "1", "a/b.py": "2"})
    built = max(path.stat().st_ctime_ns for path in venv.rglob("*"))
    patched, old = venv / SITE / "a" / "b.py", (venv / SITE / "a" / "b.py").stat()
    while time.time_ns() < built + 20_000_000:  # the clock of a file system may tick that slowly
        time.sleep(0.005)
    patched.write_text("3")
    os.utime(patched, ns=(old.st_atime_ns, old.st_mtime_ns))

    assert faults(verify.verify(venv, since_ns=built)) == {("changed", "a/b.py")}


def test_unchanged_files_are_not_read_again(venv, tmp_path):
    """6 GB must not be read for every question; a change of content must be seen all the same."""
    memory = tmp_path / "memory.json"
    install(venv, "a", "1", {"a/__init__.py": "1", "a/b.py": "2"})
    first = verify.verify(venv, memory=memory)
    second = verify.verify(venv, memory=memory)
    (venv / SITE / "a" / "b.py").write_text("3")
    third = verify.verify(venv, memory=memory)

    assert (first.hashed, second.hashed, third.hashed) == (3, 0, 1)
    assert second.ok
    assert faults(third) == {("changed", "a/b.py")}


def test_edited_file_whose_time_was_set_back(venv, tmp_path):
    """An edit that keeps size and mtime is still an edit."""
    memory = tmp_path / "memory.json"
    install(venv, "a", "1", {"a/__init__.py": "1"})
    path = venv / SITE / "a" / "__init__.py"
    verify.verify(venv, memory=memory)
    status = path.stat()
    path.write_text("2")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert faults(verify.verify(venv, memory=memory)) == {("changed", "a/__init__.py")}


def test_replaced_file_with_the_same_size_and_time(venv, tmp_path):
    """Copying with preserved times makes another inode."""
    memory = tmp_path / "memory.json"
    install(venv, "a", "1", {"a/__init__.py": "1"})
    path = venv / SITE / "a" / "__init__.py"
    verify.verify(venv, memory=memory)
    status = path.stat()
    other = path.with_name("other")
    other.write_text("2")
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(path)

    assert faults(verify.verify(venv, memory=memory)) == {("changed", "a/__init__.py")}


def test_damaged_memory_is_no_memory(venv, tmp_path):
    """A killed run may leave half a file; the next one reads the environment again."""
    memory = tmp_path / "memory.json"
    memory.write_text('{"a": [1, 2')
    install(venv, "a", "1", {"a/__init__.py": "1"})

    found = verify.verify(venv, memory=memory)

    assert (found.ok, found.hashed) == (True, 2)


def test_no_environment(tmp_path):
    """One line, not a traceback."""
    with pytest.raises(UsageError, match="is not a virtual environment"):
        verify.verify(tmp_path)


def test_a_version_spelled_otherwise_is_the_same_version():
    """certifi unpacks to `certifi-2024.07.04.dist-info`: every search would take it for a changed environment."""
    pin = Pin(name="certifi", version="2024.7.4", source=Source.DEFAULT, filename="x", sha256="x")

    assert not list(unexpected([("certifi", "2024.07.04")], [pin]))
    assert list(unexpected([("certifi", "2024.7.5")], [pin]))
    assert list(unexpected([], [pin]))
