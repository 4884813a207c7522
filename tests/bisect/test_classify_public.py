"""The public cases with known answers, each with an input written for this test.

The public answers use other class names; the comments say how they were read where that is a choice:
`OTHER (jit trace)` is compile_error, `API_CHANGE` is harness_error (the benchmark must change, the build works),
`TRITON_MISMATCH` and `VERSION_GATE` are inconsistent_env (two packages do not fit, and the text names the pair),
`INSTALL_HASH_MISMATCH` is build_failed (whole files with other bytes are no network failure), `SHM` is harness_error
with RETRY (the container lacked shared memory), `THREAD_NO_CUDA_CONTEXT` is harness_error.
"""

from __future__ import annotations

from bisect.classify import Evidence, classify, conclude
from bisect.model import Conclusion, Outcome

import pytest

FX = "RuntimeError: Detected that you are using FX to symbolically trace a dynamo-optimized function. This is not supported at the moment."
STEPS = "".join(f"step {step} loss {9.5 - step / 10:.3f} ktok/s 4.1\n" for step in range(8))


def thread_error(name, error, *frames):
    """A thread's banner and traceback, as Python's threading prints them."""
    shown = "".join(
        f'  File "{frame}", line 10, in f\n    g()\n' for frame in frames or ("/env/torch/_dynamo/eval_frame.py",)
    )
    return f"Exception in thread {name}:\nTraceback (most recent call last):\n{shown}{error}\n"


def check(expected, *, hunt=None, conclusion=None, secondary=None, **evidence):
    found = classify(Evidence(**evidence))
    assert str(found.outcome) == expected, found
    if conclusion is not None:
        assert conclude(found, Outcome.parse(hunt or "fx_flag_race")) is Conclusion(conclusion)
    if secondary is not None:
        assert [str(outcome) for outcome in found.secondary] == secondary
    assert found.evidence
    assert found.advice
    return found


def test_a01_the_race_in_one_of_four_threads_with_a_clean_control():
    """The incident itself would go unnamed."""
    log = "".join(f"thread drafter-{i} started\n" for i in range(4)) + STEPS + thread_error("Thread-3 (worker)", FX)

    found = check("fx_flag_race", log=log, threads=4, control="clean", conclusion="bad")

    assert any("Detected that you are using FX" in line for line in found.evidence)
    assert "no_control" not in found.flags


def test_a02_data_parallel_over_two_gpus_crashes_and_one_gpu_is_no_evidence():
    """A pass with one worker would count as proof that the race is gone."""
    two = f'Traceback (most recent call last):\n  File "/env/torch/nn/parallel/parallel_apply.py", line 3, in f\n    x\n{FX}\n'

    check("fx_flag_race", log=two + "Caught RuntimeError in replica 1 on device 1.\n", conclusion="bad", returncode=1)
    check("too_few_threads", log=STEPS, threads=1, returncode=0, conclusion="skip")


def test_a03_nested_tracing_fails_with_one_thread():
    """A deterministic failure would be bisected as a race."""
    log = STEPS + (
        'Traceback (most recent call last):\n  File "/env/torch/utils/checkpoint.py", line 5, in f\n    x\n'
        f'  File "/env/torch/fx/experimental/proxy_tensor.py", line 9, in make_fx\n    y\n{FX}\n'
    )

    check("nested_fx", log=log, threads=1, returncode=1, conclusion="skip")


def test_a04_recomputation_in_backward_is_no_race_without_a_clean_control():
    """The recompute thread's error would count as a hit of the thread race."""
    log = STEPS + (
        'Traceback (most recent call last):\n  File "/env/torch/autograd/graph.py", line 5, in _engine_run_backward\n    x\n'
        f'  File "/env/torch/utils/checkpoint.py", line 9, in recompute\n    y\n{FX}\n'
    )

    check("nested_fx", log=log, returncode=1, conclusion="skip")
    check("nested_fx", log=log, threads=4, control="failed", conclusion="skip")
    check("fx_flag_race", log=log, control="clean", conclusion="bad")


def test_a05_the_jit_trace_sibling_is_another_failure():
    """A match on the common first words would take it for the race."""
    log = "RuntimeError: Detected that you are using FX to torch.jit.trace a dynamo-optimized function. This is not supported"

    check("compile_error", log=log, threads=4, control="clean", conclusion="skip")


def test_a06_a_swallowed_exception_counts_in_spite_of_exit_code_zero():
    """A thread that dies in a process that exits 0 would pass for a clean run."""
    log = "step 0 loss 9.1\n" + thread_error("Thread-2", FX) + STEPS + "training finished\n"

    found = check("fx_flag_race", log=log, returncode=0, conclusion="bad")

    assert "swallowed" in found.flags


def test_a07_a_retry_that_runs_eager_masks_the_race():
    """The second attempt's success would hide the first one's failure."""
    log = f"step 0 loss 9.1 tok/s 5000\n{FX}\nretry 1/1\n{STEPS}finished\n"

    found = check("fx_flag_race", log=log, returncode=0, conclusion="bad")

    assert "masked_by_retry" in found.flags


@pytest.mark.parametrize("name", ["TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE", "UNSLOTH_COMPILE_DISABLE"])
def test_a08_a_clean_run_without_compilation_is_never_good(name):
    """Every build would look clean once compilation is off."""
    found = check("compile_disabled", log=STEPS, returncode=0, threads=4, variables={name: "1"}, conclusion="skip")

    assert name in found.evidence[0]


def test_a08_a_variable_that_is_set_to_zero_disables_nothing():
    """A healthy run would be thrown away."""
    check("ok", log=STEPS, returncode=0, threads=4, variables={"TORCH_COMPILE_DISABLE": "0"}, conclusion="good")


def test_a12_a_loss_that_differs_from_the_control_is_a_mismatch():
    """The silent successor of the race would pass as ok because nothing raised."""
    log = STEPS + "check: loss of thread 2 differs from the 1-thread control: 5.91 against 5.32\n"

    check("numeric_mismatch", log=log, threads=3, returncode=0, conclusion="skip")


def test_a13_several_exceptions_in_several_threads_are_all_kept():
    """The second kind of failure would be lost, and after the fix of the first the run would be called ok."""
    others = thread_error(
        "Thread-5", "AssertionError: CURRENT_PATCHER is None in finally block", "/env/torch/fx/_symbolic_trace.py"
    )
    others += thread_error("Thread-9", "KeyError: 'grapharg'", "/env/torch/_dynamo/output_graph.py")

    found = check("fx_flag_race", log=thread_error("Thread-1", FX) + others, threads=50, returncode=1, conclusion="bad")

    assert [str(outcome) for outcome in found.secondary] == [
        "other_thread_race(fx_patcher)",
        "other_thread_race(compile)",
    ]
    check("other_thread_race(fx_patcher)", log=others, threads=50, returncode=1, conclusion="skip")


def test_a14_a_limit_set_in_another_thread_is_a_recompile_limit():
    """A thread-local setting would be merged with the FX race."""
    log = (
        "MainThread: torch._dynamo.config.recompile_limit = 1024\nforward step 0 ok\nbackward\n"
        "torch._dynamo.exc.FailOnRecompileLimitHit: Hard failure due to fullgraph=True\n"
    )

    found = check("recompile_limit", log=log, returncode=1, threads=3, conclusion="skip")

    assert "thread" in found.advice


def test_a16_an_unfused_attention_is_a_fallback_and_the_cause_of_what_follows():
    """A six times slower run would be a throughput regression, or its memory error the root."""
    log = (
        STEPS
        + "UserWarning: flex_attention called without torch.compile() - this will use an unfused implementation\nstep 41 loss 4.0\n"
    )

    check("dense_fallback", log=log, returncode=0, threads=3, conclusion="skip", secondary=[])
    check(
        "dense_fallback",
        log=log + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 11.00 GiB.\n",
        returncode=1,
        secondary=["out_of_memory(gpu)"],
    )


def test_a18_the_limit_is_the_root_of_the_silence_after_it():
    """The timeout that killed the job would be named instead of what deadlocked it."""
    log = STEPS + "ERROR trainer: Dynamo recompile limit exceeded\n"

    check("recompile_limit", log=log, returncode=124, secondary=["hang(deadline)"], conclusion="skip")
    check("recompile_limit", log=log, returncode=124, hunt="hang", conclusion="bad")


@pytest.mark.parametrize("symbol", ["ncclCommRegister", "ncclCommResume", "ncclMemFree"])
def test_a19_a_symbol_that_nccl_lacks_is_a_broken_import(symbol):
    """An environment that cannot import torch would count as a bad build."""
    log = f"ImportError: /env/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: {symbol}\n"

    found = check("import_broken", log=log, returncode=1, conclusion="skip")

    assert symbol in found.evidence[0]
    assert "libtorch_cuda.so" in found.evidence[0]


def test_a22_a_notice_of_torchao_is_no_error():
    """A healthy run would be called broken for the word incompatible."""
    notice = (
        "Skipping import of cpp extensions due to incompatible torch version 2.9.1+cu128 for torchao version 0.15.0\n"
    )

    check("ok", log=notice * 3 + STEPS, returncode=0, threads=3, conclusion="good", secondary=[])


def test_a24_shared_memory_of_triton_is_not_the_gpu_memory():
    """The word OutOfMemoryError would send people to a smaller batch."""
    log = (
        "LoweringException: NoValidChoicesError: No valid triton configs. OutOfMemoryError: out of resource: "
        "triton_tem_fused_flex_attention_0 Required: 139776 Hardware limit: 101376 Reducing block sizes may help.\n"
    )

    found = check("out_of_memory(triton_smem)", log=log, returncode=1, conclusion="skip")

    assert "block" in found.advice


def test_a25_an_illegal_access_poisons_the_process():
    """A crash of a kernel would be a vote in a race bisection."""
    log = "step 0 loss 9.1\nRuntimeError: Triton Error [CUDA]: an illegal memory access was encountered\n" * 2

    found = check("cuda_error", log=log, returncode=1, threads=3, conclusion="skip")

    check("cuda_error", log=log, hunt="cuda_error", conclusion="bad")
    assert "fresh" in found.advice


def test_a26_the_same_build_is_judged_run_by_run():
    """Two platforms would be averaged into one answer."""
    check(
        "cuda_error", log="platform aarch64 H100\nCUDA error: an illegal memory access was encountered\n", returncode=1
    )
    check("ok", log="platform x86_64 H100\n" + STEPS, returncode=0)


@pytest.mark.parametrize("values", ["nan", "NaN", "inf", "-inf"])
def test_a27_a_loss_that_is_no_number_is_never_ok(values):
    """A run that trains nothing would be good because it exits 0."""
    log = (
        f"step 1 (loss: 10.2) 4.1 ktok/s\nstep 2 (loss: 9.8) 4.2 ktok/s\nstep 3 (loss: {values}) 4.4 ktok/s\nfinished\n"
    )

    check("nan_loss", log=log, returncode=0, threads=3, hunt="nan_loss", conclusion="bad")


def test_a29_the_watchdog_and_a_silent_stop_are_both_hangs():
    """The family of hangs would not be one question."""
    first = "[rank3]:[E1129 12:00:01.1 77 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=71)\n"
    second = "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress\n"

    check("hang(nccl_watchdog)", log=STEPS + first, returncode=1, conclusion="retry")
    check("hang(nccl_watchdog)", log=STEPS + second, returncode=1, hunt="hang", conclusion="bad")
    check("hang(deadline)", log=STEPS, returncode=124, hunt="hang", conclusion="bad")


def test_a30_a_stop_without_a_message_is_a_hang():
    """A deadlock that prints nothing would be unknown."""
    check("hang(deadline)", log="step 1\nstep 2\nstep 3\n", timed_out=True, conclusion="retry")


def test_a32_a_triton_that_torch_does_not_expect_is_an_inconsistent_environment():
    """The pair of packages would not be named."""
    log = "ImportError: cannot import name 'triton_key' from 'triton.compiler.compiler' (/env/triton/compiler/compiler.py)\n"

    check("inconsistent_env", log=log, returncode=1, conclusion="skip")


def test_a36_threads_that_fail_inside_triton_are_a_race_of_triton():
    """A random number of failing threads would be an unknown crash."""
    log = "threads=8\n" + thread_error(
        "Thread-1", "TypeError: 'NoneType' object is not callable", "/env/train.py", "/env/triton/runtime/jit.py"
    )

    check("other_thread_race(triton_jit)", log=log, returncode=0, conclusion="skip", hunt="fx_flag_race")
    check("other_thread_race(triton_jit)", log=log, hunt="other_thread_race", conclusion="bad")


def test_a37_a_thread_without_a_context_is_a_mistake_of_the_harness():
    """The build would be blamed for a missing set_device."""
    found = check(
        "harness_error",
        log="RuntimeError: Triton Error [CUDA]: invalid device context\n",
        returncode=1,
        conclusion="skip",
    )

    assert "set_device" in found.advice


def test_a40_a_stricter_check_needs_a_change_of_the_benchmark():
    """Every newer build would be bad for a race it does not have."""
    log = "ValueError: block_mask was created for block_mask.shape=(1, 1, 256, 512) but got q_len=300 and kv_len=512.\n"

    found = check("harness_error", log=log, returncode=1, conclusion="skip")

    assert "code change" in found.advice


@pytest.mark.parametrize(
    ("expected", "log"),
    [
        ("not_published", "ERROR: Could not find a version that satisfies the requirement torch==2.6.0.dev20241217 (from versions: 2.6.0)\nERROR: No matching distribution found for torch==2.6.0.dev20241217\n"),
        ("not_published", "ERROR: Could not find a version that satisfies the requirement torch (from versions: none)\nERROR: No matching distribution found for torch\n"),
        ("not_published", "  x No solution found when resolving dependencies:\n  `-> Because there is no version of torch==2.12.0+cu128 and you require torch==2.12.0+cu128, we can conclude that your requirements are unsatisfiable.\n"),
        ("resolution_conflict", "  x No solution found when resolving dependencies:\n  `-> Because there is no version of torch==2.9.0.dev20250804+cu128 and vllm==0.10.1+gptoss depends on torch==2.9.0.dev20250804+cu128, we can conclude that vllm cannot be used.\n"),
        ("resolution_conflict", "ERROR: Could not find a version that satisfies the requirement nvidia-cudnn-cu12==9.1.0.70 (from torch) (from versions: 9.5.1.17)\nERROR: ResolutionImpossible: for help visit the pip documentation\n"),
        ("build_failed", "error: Failed to prepare distributions\n  Caused by: Hash mismatch for `triton==3.5.0`\n\nExpected:\n  sha256:aa\n\nComputed:\n  sha256:bb\n"),
    ],
)  # fmt: skip
def test_b_what_the_index_lacks_and_what_excludes_itself(expected, log):
    """A day without a build, a removed pin and other bytes would be one failure."""
    check(expected, log=log, returncode=1, conclusion="skip")


@pytest.mark.parametrize(
    "log",
    [
        "ERROR: lost connection to test machine\n",
        "slurmstepd: error: *** JOB 77 ON node01 CANCELLED AT 2026-10-01T10:00:00 DUE TO PREEMPTION ***\n",
    ],
)
def test_c05_a_lost_machine_is_no_vote(log):
    """One lost connection in ten runs would flip a build to bad."""
    check("harness_error", log=STEPS + log, returncode=255, conclusion="retry")


def test_d01_a_stub_library_breaks_an_import():
    """A library picked by its name would be taken for the race."""
    check(
        "import_broken",
        log="OSError: /env/flashinfer/x.so: undefined symbol: cudaDeviceReset\n",
        returncode=1,
        conclusion="skip",
    )


@pytest.mark.parametrize(
    "log",
    [
        "Collecting torch==2.9.1 (from vllm)\n  Attempting uninstall: torch\n    Found existing installation: torch 2.10.0+cu130\n    Uninstalling torch-2.10.0+cu130:\n      Successfully uninstalled torch-2.10.0+cu130\nSuccessfully installed torch-2.9.1 vllm-0.15.0\n",
        " - torch==2.10.0+cu130\n + torch==2.9.1\n + vllm==0.15.0\n",
        "# before\ntorch==2.13.0+cu130\n# after\ntorch==2.13.0\ntorch.version.cuda 12.8\n",
    ],
)  # fmt: skip
def test_d02_d04_a_replaced_torch_is_another_build(log):
    """A contaminated cell would carry the label of the torch that was removed."""
    check("wrong_build", log=log, returncode=0, conclusion="skip")


def test_d02_an_upgrade_that_was_asked_for_is_no_contamination():
    """Every ordinary upgrade would be called contamination."""
    log = "$ pip install torch==2.11.0\nCollecting torch==2.11.0\n    Found existing installation: torch 2.10.0+cu128\nSuccessfully installed torch-2.11.0\n"

    check("ok", log=log, returncode=0)


def test_d05_companions_that_drifted_apart_are_named_as_a_pair():
    """The pair to reinstall would not be in the answer."""
    log = "RuntimeError: flashinfer-cubin version (0.6.8.post1) does not match flashinfer version (0.6.10). Please install the same version.\n"

    found = check("inconsistent_env", log=log, returncode=1, conclusion="skip")

    assert "flashinfer-cubin" in found.evidence[0]


def test_d05_an_access_error_with_the_check_disabled_is_not_blamed_on_torch():
    """The error behind a disabled check would be attributed to the build."""
    found = check(
        "cuda_error",
        log="CUDA error: an illegal memory access was encountered\n",
        variables={"FLASHINFER_DISABLE_VERSION_CHECK": "1"},
        returncode=1,
        conclusion="skip",
    )

    assert "inconsistent_env" in [str(outcome) for outcome in found.secondary]


def test_d11_two_families_of_one_library_stand_behind_the_broken_import():
    """The package to remove would not be named."""
    log = "nvidia-nccl-cu11==2.14.3\nnvidia-nccl-cu12==2.27.3\nImportError: libtorch_cuda.so: undefined symbol: ncclMemFree\n"

    found = check("import_broken", log=log, returncode=1, secondary=["library_mix"])

    assert any("nccl" in line and "cu11" in line for line in found.evidence)


def test_d12_a_warning_of_two_cudnns_beside_good_steps_is_ok_with_a_remark():
    """A healthy run would be thrown away, or its slowness blamed on the build."""
    log = (
        "UserWarning: cuDNN version incompatibility: PyTorch was compiled  against (9, 1, 0) but found runtime version (8, 9, 2)\n"
        + STEPS
    )

    check("ok", log=log, returncode=0, threads=3, secondary=["library_mix"])


def test_d16_packages_of_the_user_win_over_the_environment():
    """A run with somebody else's torch would be counted."""
    log = "sys.path: ['/env/lib/python3.12/site-packages', '/home/u/.local/lib/python3.12/site-packages']\ntorch.__file__ = /home/u/.local/lib/python3.12/site-packages/torch/__init__.py\n"

    found = check("env_not_isolated", log=log, returncode=0, conclusion="skip")

    assert "/home/u/.local" in found.evidence[0]


@pytest.mark.parametrize(
    "symbol", ["_ZN3c104cuda9SetDeviceEa", "_ZN2at4_ops5zeros", "_ZN5torch3jit17parseSchemaOrName"]
)
def test_d19_mangled_names_of_torch_name_the_package_to_rebuild(symbol):
    """The reader would not learn which package was built for another torch."""
    log = f"torch 2.12.0.dev20260301+cu130\nImportError: /env/lib/python3.12/site-packages/flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so: undefined symbol: {symbol}\n"

    found = check("import_broken", log=log, returncode=1)

    assert "flash_attn" in found.advice
    assert "rebuild" in found.advice.lower()
    assert "2.12.0.dev20260301" in found.advice


def test_e14_a_collective_that_timed_out_after_recompile_stalls():
    """Ranks that drift apart would be an unknown crash."""
    check(
        "hang(nccl_watchdog)",
        log=STEPS + "Watchdog caught collective operation timeout: WorkNCCL\n",
        returncode=134,
        secondary=["abort"],
    )


def test_e15_a_throttled_gpu_is_a_remark_on_a_healthy_run():
    """A hot card would end a run that was fine."""
    check("ok", log=STEPS + "warning: GPU throttled below threshold\n", returncode=0, secondary=["hardware_fault"])


def test_e18_a_run_in_which_nothing_was_compiled_shows_nothing():
    """A data-parallel wrapper that silently runs eager would clear every build."""
    check("nothing_compiled", log="threads=2\ncompile events: 0\n" + STEPS, returncode=0, conclusion="skip")


@pytest.mark.parametrize(
    "log",
    [
        "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 12080). Please update your GPU driver\nfalling back to CPU\n" + STEPS,
        "docker: Error response from daemon: nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver to a newer version\n",
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility was attempted on non supported HW\n",
        "Audited 1 package in 3ms\nRuntimeError: NVIDIA driver too old (found 12070)\n",
    ],
)  # fmt: skip
@pytest.mark.parametrize("returncode", [0, 1, 125])
def test_f_a_driver_that_is_too_old_is_never_good(log, returncode):
    """Green tests on a machine that ran without its GPU would clear a build."""
    check("driver_too_old", log=log, returncode=returncode, threads=3, conclusion="skip")


def test_f08_too_little_shared_memory_is_the_harness_and_is_run_again():
    """A loader's bus error would be a segfault of torch."""
    log = (
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).\n"
    )

    check("harness_error", log=log, returncode=1, conclusion="retry")


def test_f12_a_library_path_that_shadows_the_environment_is_named():
    """The variable that breaks the import would stay unknown."""
    found = check(
        "import_broken",
        log="ImportError: /env/torch/lib/../../nvidia/cublas/lib/libcublas.so.11: undefined symbol: cublasLtGetStatusString, version libcublasLt.so.11\n",
        variables={"LD_LIBRARY_PATH": "/usr/local/cuda-12.4/lib64"},
        returncode=1,
    )

    assert "/usr/local/cuda-12.4/lib64" in found.advice


def test_f13_another_nccl_version_in_the_image_is_no_failure():
    """An image's own variable would be an error."""
    check("ok", log="NCCL_VERSION=2.15.5\ntorch.cuda.nccl.version() = (2, 19, 3)\n" + STEPS, returncode=0)


@pytest.mark.parametrize(
    ("expected", "conclusion", "log"),
    [
        ("download_failed", "retry", "error: Failed to fetch: `https://index.example/simple/torch/`\n  Caused by: dns error: failed to lookup address information: Name or service not known\n"),
        ("hardware_fault", "retry", "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"),
        ("fx_flag_race", "bad", FX + "\n"),
    ],
)  # fmt: skip
def test_g09_only_the_third_of_three_failures_starts_a_search(expected, conclusion, log):
    """A dead name server would start a bisection."""
    check(expected, log=log, threads=3, returncode=1, conclusion=conclusion)


def test_g12_the_advice_says_package_torch_symbol_and_what_to_do():
    """A loader's message would make people file the wrong bug."""
    log = "PyTorch version: 2.11.0+cu130\nImportError: /env/lib/python3.11/site-packages/sgl_kernel/common_ops.abi3.so: undefined symbol: _ZN3c1013MessageLoggerC1E\n"

    advice = classify(Evidence(log=log, returncode=1)).advice

    assert all(part in advice for part in ("sgl_kernel", "2.11.0+cu130", "_ZN3c1013MessageLoggerC1E"))
