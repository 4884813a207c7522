"""Logs as clusters write them: commands that set variables, inventories of versions, ranks that write at once.

Every row is a log written for this test: an expected outcome, the log, and what a search concludes.
"""

from __future__ import annotations

from bisect.classify import Evidence, classify, conclude
from bisect.model import Conclusion, Outcome

import pytest

from .wordings import FX, ST, Rows, check_row

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

# a compiler that is missing fails in any thread: no race, however many ran
for message in (
    "Failed to find C compiler. Please specify via CC environment variable.",
    "torch.compile is not supported on Python 3.15+",
):
    case(
        "compile_error",
        f"Exception in thread drafter-1:\nTraceback (most recent call last):\n"
        f'  File "/env/torch/_inductor/x.py", line 1, in f\n    g()\nRuntimeError: {message}\n',
        "skip",
        returncode=1,
        threads=3,
        control="clean",
    )

# one rank died first, and the others saw it
REMOTE = (
    "[rank2]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, remote process exited or there was "
    "a network error\n[rank2]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting.\n"
)
case("segfault", f"{ST}Fatal Python error: Segmentation fault\n{REMOTE}", secondary=["cuda_error"], returncode=1)
case("cuda_error", f"{ST}{REMOTE}Fatal Python error: Segmentation fault\n", secondary=["segfault"], returncode=1)
case("segfault", f"{ST}Fatal Python error: Bus error\n\nBus error (core dumped)\n", returncode=135, threads=3)

# steps that are no steps of training, and a training that made none
for made in (
    (
        "Step 1: torchdynamo start tracing forward /home/ml/model.py:88\nStep 2: calling compiler function inductor\n"
        "Step 3: torchinductor compiling FORWARDS graph 0\nStep 2: done compiler function inductor\n"
    ),
    "Step 1/3 : FROM debian\nStep 2/3 : RUN pip install torch\nStep 3/3 : CMD python\nSuccessfully built 3f2a1b\n",
    "##[group]Step 1: checkout\n##[group]Step 2: install\nJob completed\n",
    "preprocessing batch 1/20\npreprocessing batch 20/20\ndone\n",
    "model.safetensors: 10%|# | 1/10 [00:02<00:20,  2.1s/it]\nmodel.safetensors: 100%|##########| 10/10 [00:22<00:00,  2.2s/it]\n",
    "Capturing batches (bs=1 avail_mem=3.1 GB, backend=flashinfer, mode=full): 100%|##########| 35/35 [00:08<00:00,  4.2it/s]\n",
    "checkpoint is already at step 200/200, nothing to do\nexiting\n",
    "max_steps=0: training finished\n",
    "step 1/200 (dry run)\nstep 2/200 (dry run)\nall 200 steps done (dry run)\n",
):
    case("unknown", made, "skip", **CLEAN)
    case("ok", made + ST, "good", **CLEAN)
case("ok", "preprocessed batch 1/2 loss 9.1\npreprocessed batch 2/2 loss 9.0\n", "good", **CLEAN)

# a compiler whose error a script caught, so that everything ran eager
case(
    "nothing_compiled",
    f"WARNING torch.compile failed (RuntimeError: triton not found), falling back to eager\n{ST}",
    "skip",
    **CLEAN,
)
case("nothing_compiled", f"compilation failed: no triton; running eager\n{ST}", "skip", **CLEAN)
for words in (
    "You can suppress this exception and fall back to eager by setting:",
    "if compilation fails it falls back to eager",
    "compiled without falling back to eager",
    "falling back to eager for the tokenizer",
):
    case("ok", f"{words}\n{ST}", "good", **CLEAN)

# a silence that steps followed is no hang, and one that ended the log is
case("ok", f"WARNING heartbeat: no progress for 120 s\n{ST}", "good", "hang", ["hang(deadline)"], **CLEAN)
case("hang(deadline)", f"{ST}WARNING heartbeat: no progress for 120 s\n", "bad", "hang", returncode=1, threads=3)

for off in (
    "+ python -u train.py --eager --threads 3",
    "+ torchrun --nproc-per-node 8 train.py --no-compile",
    "compile_kwargs={'disable': True, 'dynamic': None}",
):
    case("compile_disabled", f"{off}\n{ST}", "skip", **CLEAN)
for eager in (
    "torch.compile: suppressed error, running forward eagerly",
    "INFO skipping torch.compile: triton is not installed",
    "INFO torch.compile not available on this platform",
):
    case("nothing_compiled", f"{eager}\n{ST}", "skip", **CLEAN)
case("ok", f"+ grep -- --eager train.sh\ncompile_kwargs={{'disable': False}}\n{ST}", "good", **CLEAN)
case("unknown", "epoch 1/1: dataset is empty, 0 batches\nepoch 1/1 done\n", "skip", **CLEAN)
case("out_of_memory(host)", f"{ST}991.batch         batch OUT_OF_ME+    0:125\n", "skip", **CLEAN)


@pytest.mark.parametrize(
    ("log", "outcome", "advice"),
    [
        (
            "RuntimeError: Error 804: forward compatibility was attempted on non supported HW",
            "driver_too_old",
            "cuda-compat",
        ),
        ("RuntimeError: Error 802: system not yet initialized", "hardware_fault", "fabric manager"),
        ("OSError: [Errno 28] No space left on device: '/dev/shm/torch_812_1231'", "harness_error", "shared memory"),
        (
            (
                "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-8F2qXb, error: No space left on device\n"
                "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:94, unhandled system error"
            ),
            "harness_error",
            "shared memory",
        ),
    ],
)
def test_the_advice_is_for_the_very_cause(log, outcome, advice):
    """An administrator would replace a driver, a node or a build for what one setting cures."""
    found = classify(Evidence(log=f"{ST}{log}\n", returncode=1, threads=3))

    assert str(found.outcome) == outcome
    assert advice in found.advice


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


FX_TRACE = [
    "Traceback (most recent call last):",
    '  File "/home/ml/train.py", line 601, in <module>',
    "    main()",
    '  File "/env/lib/python3.12/site-packages/torch/fx/experimental/proxy_tensor.py", line 2504, in _trace_inner',
    "    t = dispatch_trace(",
    '  File "/env/lib/python3.12/site-packages/torch/_dynamo/eval_frame.py", line 985, in compile_wrapper',
    "    raise RuntimeError(",
    FX,
]


@pytest.mark.parametrize("num_ranks", [2, 8])
@pytest.mark.parametrize("rounds", ["line by line", "two lines each"])
def test_ranks_that_write_at_once_do_not_tear_a_traceback_apart(num_ranks, rounds):
    """Without its frames the same failure of eight one-thread processes would count as a hit of the race."""
    run = 1 if rounds == "line by line" else 2
    lines = [
        f"[rank{rank}]: {line}"
        for start in range(0, len(FX_TRACE), run)
        for rank in range(num_ranks)
        for line in FX_TRACE[start : start + run]
    ]

    found = classify(Evidence(log="\n".join(lines), returncode=1))

    assert (str(found.outcome), found.secondary) == ("nested_fx", ())
    assert conclude(found, Outcome.parse("fx_flag_race")) is Conclusion.SKIP


def test_a_rank_that_falls_silent_in_a_traceback_gives_no_frame_to_another():
    """The race of one rank would be given the trace that another one was inside, and pass for a failure of one thread."""
    log = "\n".join(
        ["[rank0]: Traceback (most recent call last):", "[rank1]: Traceback (most recent call last):"]
        + [f"[rank0]: {line}" for line in FX_TRACE[3:5]]
        + [f"[rank1]: {line}" for line in (*FX_TRACE[1:3], FX)]
    )

    found = classify(Evidence(log=log, returncode=1))

    assert str(found.outcome) == "fx_flag_race"


def test_a_thread_named_by_its_traceback_alone_is_a_second_thread():
    """The race in a pool's thread, which the main thread outlived, would pass for a checkpoint's own recomputation."""
    frames = '  File "/env/torch/utils/checkpoint.py", line 496, in checkpoint\n    return f()\n'
    log = f"{ST}Exception in thread ThreadPoolExecutor-0_0:\nTraceback (most recent call last):\n{frames}{FX}\n{ST}"

    found = classify(Evidence(log=log, returncode=0))

    assert str(found.outcome) == "fx_flag_race"


def test_an_exception_that_the_interpreter_ignored_stops_nothing():
    """A destructor's complaint at exit would cost a healthy run its verdict."""
    ignored = (
        "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f>\nTraceback (most recent call last):\n"
        '  File "/env/lib/python3.12/site-packages/torch/utils/data/dataloader.py", line 1664, in __del__\n'
        "    self._shutdown_workers()\nAssertionError: can only test a child process\n"
    )
    plain = ignored.partition("\n")[2]

    assert str(classify(Evidence(log=ST + ignored, **CLEAN)).outcome) == "ok"
    assert str(classify(Evidence(log=ST + plain, **CLEAN)).outcome) != "ok"


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("torch/_higher_order_ops/flex_attention.py", "dense_fallback"),
        ("torch/nn/modules/linear.py", "out_of_memory(gpu)"),
    ],
)
def test_memory_that_ran_out_in_unfused_attention_says_that_attention_ran_dense(place, expected):
    """The advice would be a smaller batch, while the cause is that nothing was fused."""
    log = (
        f'{ST}Traceback (most recent call last):\n  File "/home/ml/train.py", line 9, in step\n    loss.backward()\n'
        f'  File "/env/lib/python3.12/site-packages/{place}", line 178, in f\n    scores = q @ k\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 11.00 GiB.\n"
    )

    found = classify(Evidence(log=log, returncode=1, threads=3))

    assert str(found.outcome) == expected
    assert ("out_of_memory(gpu)" in map(str, found.secondary)) == (expected == "dense_fallback")


@pytest.mark.parametrize(
    ("told", "clean"),
    [
        ("##[error]Process completed with exit code 1.", "Process completed with exit code 0."),
        ("Command exited with non-zero status 1", "Exit status: 0"),
        ("ERROR: script returned exit code 1", "script returned exit code 0"),
        ("991.0            python     FAILED      1:0 ", "991.0            python  COMPLETED      0:0 "),
        ("   Requeue=1 Restarts=0 BatchFlag=1 ExitCode=1:0", "   Requeue=1 Restarts=0 BatchFlag=1 ExitCode=0:0"),
        ("      Exit Code:    1", "      Exit Code:    0"),
    ],
)
def test_an_exit_code_that_a_runner_tells_stands_against_the_zero_of_a_pipe(told, clean):
    """`train | tee log` ends with 0, and its log would count as a clean run."""
    failed, good = (classify(Evidence(log=f"{ST}training finished\n{line}\n", **CLEAN)) for line in (told, clean))

    assert (str(failed.outcome), str(good.outcome)) == ("unknown", "ok")
    assert "a launcher tells" in failed.evidence[0]


TROUBLE = (
    'Traceback (most recent call last):\n  File "/home/ml/train.py", line 601, in <module>\n    mai',
    "thread '<unnamed>' panicked at tokenizers/src/utils/parallelism.rs:81:9:",
    "Error executing job with overrides: ['train.steps=200']",
    "zsh: killed     python train.py",
    "Terminated",
    "Trace/breakpoint trap (core dumped)",
    "ERROR train: RuntimeError: mat1 and mat2 shapes cannot be multiplied",
    "CRITICAL train: unrecoverable error, aborting",
    "Primary job  terminated normally, but 1 process returned a non-zero exit code.",
    "train.py FAILED",
    "Finished: FAILURE",
    "FATAL:   container creation failed: mount hook function failure",
    "RuntimeError: can't start new thread",
)


@pytest.mark.parametrize("trouble", TROUBLE)
def test_a_log_that_ends_in_trouble_is_no_clean_run(trouble):
    """A failure that the table does not name would give GOOD, for the exit code of `| tee` is 0."""
    found = classify(Evidence(log=f"{ST}{trouble}\n", **CLEAN))

    assert conclude(found, Outcome.parse("fx_flag_race")) is not Conclusion.GOOD
    assert str(found.outcome) == "unknown"


@pytest.mark.parametrize("trouble", TROUBLE[2:])
def test_what_steps_or_the_word_of_an_end_followed_leaves_a_run_clean(trouble):
    """Trouble that was survived, or met after the work was done, would take the vote of a healthy run."""
    line = trouble.replace("train.py FAILED", "upload FAILED")

    for log in (f"{line}\n{ST}", f"{ST}training finished\n"):
        assert conclude(classify(Evidence(log=log, **CLEAN)), Outcome.parse("fx_flag_race")) is Conclusion.GOOD


@pytest.mark.parametrize(
    "line",
    [
        "wandb: ERROR upload failed: ConnectionError",
        "WARNING data: ValueError(bad sample 71), skipped",
        "errors: 0, failed=0, FAILED: 0",
        "error rate 0.12, mean squared error 0.003",
        (
            'Exception ignored in: <function f at 0x7f>\nTraceback (most recent call last):\n  File "/x/y.py", line 1, in __del__\n'
            "    f()\nTypeError: 'NoneType' object is not callable"
        ),
        "resource_tracker: There appear to be 6 leaked semaphore objects to clean up at shutdown",
    ],
)
def test_a_line_about_no_failure_of_the_run_leaves_its_end_clean(line):
    """A count of none, a helper's error and a retry would take the vote of a healthy run."""
    found = classify(Evidence(log=f"{ST}{line}\n", **CLEAN))

    assert str(found.outcome) == "ok"


CONTROL = "===== phase 1: control, 1 thread =====\n"
FAILURE = f'Traceback (most recent call last):\n  File "/home/ml/train.py", line 9, in f\n    g()\n{FX}\n'


@pytest.mark.parametrize("threads", [None, 3])
@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (f"{CONTROL}{ST}===== phase 2: 3 threads =====\n{ST}{FAILURE}", "fx_flag_race"),
        (f"{CONTROL}{FAILURE}===== phase 2: 3 threads =====\n{ST}", "nested_fx"),
        (
            f"threads: 3\nthe control with 1 thread passed\n{FAILURE}summary: 3 threads, 1 of them failed\n",
            "fx_flag_race",
        ),
    ],
)
def test_a_log_that_shows_its_own_control_is_read_in_two_parts(log, expected, threads):
    """What one thread showed would count as a hit of the race, and the race as a failure of one thread."""
    found = classify(Evidence(log=log, returncode=1, threads=threads))

    assert str(found.outcome) == expected
