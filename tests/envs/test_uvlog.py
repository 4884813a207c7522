"""What uv wrote becomes one outcome; a wrong one sends a search the wrong way."""

import pytest

from envs import uvlog
from envs.errors import CannotBuildError, CannotRunError
from envs.progress import Progress

NO_SPACE = """\
error: Failed to install: torch-2.11.0
  Caused by: failed to copy file: No space left on device (os error 28)
"""
QUOTA = "error: Failed to fetch `torch`\n  Caused by: Disk quota exceeded (os error 122)"
HASH = """\
error: Failed to fetch `triton==3.5.0`
  Caused by: Hash mismatch for `triton==3.5.0`

Expected:
  sha256:aa

Computed:
  sha256:bb
"""
DNS = """\
error: Request failed after 3 retries
  Caused by: Failed to fetch: `https://i.example/simple/torch/`
  Caused by: client error (Connect)
  Caused by: dns error: failed to lookup address information
"""
REFUSED = """\
error: Failed to fetch: `http://127.0.0.1:9/`
  Caused by: tcp connect error: Connection refused (os error 111)
"""
CERTIFICATE = "error: invalid peer certificate: UnknownIssuer"
OFFLINE = """\
x No solution found when resolving dependencies:
  Because numpy was not found in the cache and you require numpy, we can conclude that your requirements are
  unsatisfiable.

  hint: Packages were unavailable because the network was disabled. When the network is disabled, registry
  packages may only be read from the cache.
"""
NO_NIGHTLY = """\
x No solution found when resolving dependencies:
  Because there is no version of torch==2.9.0.dev20250804+cu128 and you require torch==2.9.0.dev20250804+cu128,
  we can conclude that your requirements are unsatisfiable.
"""
NO_PAGE = """\
error: Failed to fetch: `https://i.example/whl/cu131/torch/`
  Caused by: HTTP status client error (404 Not Found)
"""
PIN_GONE = """\
x No solution found when resolving dependencies:
  Because there is no version of nvidia-cudnn-cu12==9.1.0.70 and torch==2.6.0 depends on
  nvidia-cudnn-cu12==9.1.0.70, we can conclude that torch==2.6.0 cannot be used.
"""
CASES = [
    ("disk_full", NO_SPACE),
    ("disk_full", QUOTA),
    ("build_failed", HASH),
    ("build_failed", "something nobody has seen before"),
    ("build_failed", ""),
    ("download_failed", DNS),
    ("download_failed", REFUSED),
    ("download_failed", CERTIFICATE),
    ("download_failed", OFFLINE),
    ("not_published", NO_NIGHTLY),
    ("not_published", NO_PAGE),
    ("resolution_conflict", PIN_GONE),
]


@pytest.mark.parametrize(("outcome", "log"), CASES)
def test_outcome(outcome, log):
    """B04, B12, B16: a removed pin is not a network fault, a hash mismatch neither."""
    error = uvlog.explain(log, subject="cannot build stub")

    assert error.outcome == outcome
    assert error.message.startswith("cannot build stub: ")
    assert error.hint
    assert "\n" not in error.message
    assert isinstance(error, CannotRunError if outcome == "disk_full" else CannotBuildError)


def test_detail_names_the_culprit_and_no_secret():
    """The package is what a person needs; the password of an index is what nobody may see."""
    error = uvlog.explain("\x1b[31merror\x1b[39m: Failed to fetch: `https://user:secret@i.example/numpy/`", subject="s")

    assert "https://i.example/numpy/" in error.message
    assert "secret" not in error.message


def test_progress_of_a_download():
    """Bytes done, bytes in all, remaining time, and what is being waited for."""
    progress = Progress(sizes={"torch": 3_000_000_000, "triton": 1_000_000_000}, unpacked=8_000_000_000)
    for line in ("Resolved 2 packages in 1ms", "Downloading torch (2.8GiB)", "Downloading triton (953.7MiB)"):
        progress.see(line)
    nothing_yet = progress.line(unpacking=0, installed=0, elapsed_s=5.0)
    progress.see(" Downloaded triton")

    assert nothing_yet == "downloaded 0.0 MB of 4.00 GB, now torch, triton"
    half = progress.line(unpacking=int(1.9e9), installed=0, elapsed_s=10.0)
    over = progress.line(unpacking=10**12, installed=0, elapsed_s=10.0)

    assert half == "downloaded 2.00 GB of 4.00 GB, about 10 s left, now torch"
    assert over == "downloaded 4.00 GB of 4.00 GB, now torch"


def test_progress_of_an_installation():
    """From the cache nothing is downloaded, and the files on disk say how far it is."""
    progress = Progress(sizes={"torch": 3_000_000_000}, unpacked=8_000_000_000)

    assert progress.line(unpacking=0, installed=2_000_000_000, elapsed_s=10.0) == (
        "installed 2.00 GB of about 8.00 GB, about 30 s left"
    )
