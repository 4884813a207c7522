"""Logs as clusters write them: commands that set variables, inventories of versions, ranks that write at once.

Every row is a log written for this test: an expected outcome, the log, and what a search concludes.
"""

from __future__ import annotations

from bisect.classify import Evidence, classify, conclude
from bisect.model import Conclusion, Outcome

import pytest

from .wordings import ST, Rows, check_row

ROWS = Rows()
case = ROWS.add
CLEAN = {"returncode": 0, "threads": 3, "control": "clean"}

# a compiler that a command turned off is no clean run
for command in (
    "+ srun --ntasks=1 env TORCH_COMPILE_DISABLE=1 python -u train.py",
    "+ docker run --rm --gpus all -e TORCH_COMPILE_DISABLE=1 trainer:1 python train.py",
    "$ podman run --env 'TORCHDYNAMO_DISABLE=1' trainer:1",
    "mpirun -np 8 -x TORCHDYNAMO_DISABLE=1 python train.py",
    "srun env OMP_NUM_THREADS=8 TORCH_COMPILE_DISABLE=1 python train.py",
):
    case("compile_disabled", f"{command}\n{ST}", "skip", **CLEAN)
case("ok", f"+ docker run -e TORCH_COMPILE_DISABLE=0 trainer:1\n{ST}", "good", **CLEAN)
case("ok", f"to debug, start it with -e TORCH_COMPILE_DISABLE=1\n{ST}", "good", **CLEAN)

# counters of Dynamo that counted nothing
case("nothing_compiled", f"{ST}counters: {{'frames': {{'total': 0, 'ok': 0}}, 'stats': {{}}}}\n", "skip", **CLEAN)
case("nothing_compiled", f"{ST}{{'frames': Counter({{'total': 0}})}}\n", "skip", **CLEAN)
case("ok", f"{ST}{{'frames': Counter({{'total': 10, 'ok': 10}})}}\n", "good", **CLEAN)

# the watchdog's own words name the variable that lengthens its patience
case(
    "hang(nccl_watchdog)",
    "[rank3]:[F514 03:41:00.113442 ProcessGroupNCCL.cpp:1557] [PG ID 0 PG GUID 0 Rank 3] ProcessGroupNCCL's watchdog got "
    "stuck for 480 seconds without making progress in monitoring enqueued collectives. If a longer timeout would help, you can "
    "either increase the timeout (TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC) to a larger value or disable the heartbeat monitor "
    "(TORCH_NCCL_ENABLE_MONITORING=0).\n",
    "bad",
    "hang",
    returncode=134,
)
case("ok", f"NCCL heartbeat monitor timed out after TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=480 is the default\n{ST}", **CLEAN)


@pytest.mark.parametrize("row", ROWS, ids=ROWS.ids)
def test_a_log_of_the_field_is_what_it_shows(row):
    """A cluster's own spelling would make a clean run of one that showed nothing, or hide a cause in plain sight."""
    check_row(row)


@pytest.mark.parametrize(
    "line",
    [
        "2026-05-14 02:58:11,402 INFO env: python 3.12.9 torch 2.9.1+cu128 cuda 12.8 triton 3.5.1 driver 570.133.20",
        "versions torch 2.9.1+cu128, triton 3.5.1",
        '{"torch_version": "2.9.1+cu128", "num_gpus": 8}',
        "- PyTorch version (accelerator?): 2.9.1+cu128 (CUDA)",
        "- PyTorch version (GPU?): 2.9.1+cu128 (True)",
        "[titan] 2026-05-14 root - INFO - torch version 2.9.1+cu128",
    ],
)
def test_the_torch_of_an_inventory_is_compared_with_the_one_asked_for(line):
    """The commonest contamination would pass for `nothing names the one that ran`."""
    outcomes = [
        str(classify(Evidence(log=f"{line}\n{ST}", expected_torch=asked, **CLEAN)).outcome)
        for asked in ("2.9.1+cu128", "2.11.0+cu128")
    ]

    assert outcomes == ["ok", "wrong_build"]


@pytest.mark.parametrize(
    "line",
    [
        "checkpoint: python 3.12.9 torch 2.9.1+cu128 cuda 12.8",
        "resuming what was written by torch version 2.9.1+cu128",
        "sglang 0.5.9 requires torch==2.9.1, but you have torch 2.11.0+cu128 which is incompatible.",
        "known bug of python 3.12 torch 2.9.1, see the wiki",
    ],
)
def test_the_torch_of_another_run_is_not_the_one_that_ran(line):
    """A checkpoint's history would make a wrong build of the right one."""
    log = f"env: python 3.12.9 torch 2.11.0+cu128 cuda 12.8\n{line}\n{ST}"

    found = classify(Evidence(log=log, expected_torch="2.11.0+cu128", **CLEAN))

    assert conclude(found, Outcome.parse("fx_flag_race")) is Conclusion.GOOD


def test_a_torch_without_its_variant_is_told_by_the_cuda_beside_it():
    """The wheel of another CUDA under the same number would count as the one asked for."""
    log = f"env: python 3.12.9 torch 2.13.0 cuda 12.8 triton 3.7.1\n{ST}"

    outcomes = [
        str(classify(Evidence(log=log, expected_torch=asked, **CLEAN)).outcome)
        for asked in ("2.13.0+cu130", "2.13.0+cu128")
    ]

    assert outcomes == ["wrong_build", "ok"]
