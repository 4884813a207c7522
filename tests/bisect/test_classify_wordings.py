"""Wordings met in public trackers and traps beside them, each in a log written for this test.

Every row is an expected outcome, a log, and what else must hold. The traps: error texts in configurations, comments and
commands; `inf` and `nan` inside words; notices that stop nothing; a cause that stands after its consequence.
"""

from __future__ import annotations

from bisect.classify import Evidence, classify, conclude
from bisect.model import Conclusion, Outcome

import pytest

from .wordings import FX, ST, Rows, check_row

ROWS = Rows()
case = ROWS.add

# quoting
case(
    "ok",
    'config: {"retry_on": "Detected that you are using FX to symbolically trace a dynamo-optimized function"}\n' + ST,
    "good",
    returncode=0,
    threads=3,
)
case(
    "ok",
    "# workaround for: Detected that you are using FX to symbolically trace a dynamo-optimized function\n" + ST,
    "good",
    returncode=0,
    threads=3,
)
case(
    "ok",
    '+ echo "If you see CUDA out of memory, lower the batch"\nIf you see CUDA out of memory, lower the batch\n' + ST,
    "good",
    returncode=0,
    threads=3,
)
case("ok", "+ grep -c 'Segmentation fault' run.log\n0\n" + ST, returncode=0, threads=3)
case("ok", "  known_errors: ['CUDA out of memory', 'NCCL timeout']\n" + ST, returncode=0, threads=3)
case(
    "ok",
    "known_errors:\n  - 'CUDA out of memory'\n  - \"Detected that you are using FX to symbolically trace\"\n" + ST,
    returncode=0,
    threads=3,
)
case(
    "fx_flag_race",
    '{"level": "error", "thread": "drafter-1", "msg": "Detected that you are using FX to symbolically trace a dynamo-optimized function"}\n',
    "bad",
    threads=3,
)
case(
    "fx_flag_race",
    "drafter-1 died: RuntimeError('Detected that you are using FX to symbolically trace a dynamo-optimized function.')\n",
    "bad",
    threads=3,
)
case(
    "fx_flag_race",
    "ERROR [drafter-2] step 3: Detected that you are using FX to symbolically trace a dynamo-optimized function\n",
    "bad",
    threads=3,
)
case(
    "fx_flag_race",
    "\x1b[31mRuntimeError: Detected that you are using FX\x1b[0m to symbolically trace a dynamo-optimized function\x1b[0m\r\n",
    "bad",
    threads=3,
)
case(
    "fx_flag_race",
    '[rank3]: Traceback (most recent call last):\r\n[rank3]:   File "/x/train.py", line 3, in f\r\n[rank3]:     y = f(x)\r\n[rank3]: '
    + FX
    + "\r\n",
    "bad",
    threads=3,
)
case("fx_flag_race", "(TrainWorker pid=12, ip=10.0.0.1) 2026-11-29 12:00:01,123 ERROR " + FX + "\n", "bad", threads=3)
# info/nanoseconds
case(
    "ok",
    "INFO loss information: nanoseconds per step 12\ninfo: loss infrastructure ready\nstep 1 loss 3.2 info ok\n" + ST,
    returncode=0,
    threads=3,
)
case("ok", "best_loss=inf\nbest val loss: inf\nmin_loss inf\n" + ST, returncode=0, threads=3)
case("ok", "early stopping: best loss so far inf\n" + ST, returncode=0, threads=3)
case(
    "ok",
    "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0\n" + ST,
    returncode=0,
    threads=3,
)
case("nan_loss", "{'loss': nan, 'grad_norm': nan, 'learning_rate': 1e-5, 'epoch': 0.1}\n", returncode=0)
case("nan_loss", "step 4 | loss=NaN | tok/s=4100\nstep 5 | loss=NaN\n", returncode=0, threads=3)
case("nan_loss", "step | loss | tok/s\n1 | 10.2 | 4000\n2 | 9.8 | 4100\n3 | nan | 4200\n", returncode=0, threads=3)
case("nan_loss", "step,loss,ktok_s\n1,10.2,4\n2,nan,4\n", returncode=0)
case("nan_loss", "losses: [10.2, 9.8, nan, nan]\n", returncode=0)
case("nan_loss", "train/loss: inf\n" + ST, returncode=0)
case("nan_loss", "epoch 1 train_loss nan val_loss 3.3\n", returncode=0)
case("nan_loss", "loss: tensor(nan, device='cuda:0', grad_fn=<NllLossBackward0>)\n", returncode=0)
case("nan_loss", "step 10 lm_loss: 3.0 aux_loss: -inf\n", returncode=0)
case("ok", "num_nan_losses: 0\nnan_loss_check=True\nskip_nan: true\n" + ST, returncode=0, threads=3)
# rc only
for code, ending in [
    (139, "segfault"),
    (-11, "segfault"),
    (134, "abort"),
    (-6, "abort"),
    (137, "out_of_memory(host)"),
    (-9, "out_of_memory(host)"),
    (124, "hang(deadline)"),
    (143, "hang(deadline)"),
    (-15, "hang(deadline)"),
    (132, "arch_unsupported"),
    (135, "segfault"),
    (127, "harness_error"),
    (1, "unknown"),
    (130, "harness_error"),
]:
    case(ending, ST, None, None, None, returncode=code, threads=3)
case("unknown", "", returncode=None)
case("unknown", "", returncode=0)
case("unknown", "\n\n")
case("segfault", "", returncode=139)
case("hang(deadline)", ST, timed_out=True, returncode=-9, conclusion="retry")
# threads
case("nested_fx", FX, "skip", threads=1)
case("fx_flag_race", FX, "bad", threads=1, control="clean")
case("nested_fx", FX, "skip", threads=4, control="failed")
case("fx_flag_race", FX, "bad")
case("ok", ST, "skip", returncode=0)
case("ok", ST, "good", "hang", returncode=0)
case("ok", ST, "good", "nan_loss", returncode=0)
case("too_few_threads", ST, "good", "nan_loss", returncode=0, threads=1)
case("ok", ST + "training complete\n", "good", threads=3)
case("unknown", ST, "skip", threads=3)
case("ok", "step 1/3 loss 3\nstep 2/3 loss 3\nstep 3/3 loss 2\n", "good", threads=3)
case("unknown", "step 1/3 loss 3\nstep 2/3 loss 3\n", "skip", threads=3)
# compile off
case("compile_disabled", "TORCH_COMPILE_DISABLE=1\n" + ST, "skip", returncode=0, threads=3)
case("compile_disabled", "+ export TORCHDYNAMO_DISABLE=1\n" + ST, "skip", returncode=0, threads=3)
case("ok", "hint: set TORCH_COMPILE_DISABLE=1 to turn compilation off\n" + ST, "good", returncode=0, threads=3)
case("ok", "TORCHDYNAMO_VERBOSE=1\nTORCH_COMPILE_DISABLE=0\n" + ST, "good", returncode=0, threads=3)
case("compile_disabled", ST, "skip", returncode=0, threads=3, variables={"TORCHDYNAMO_DISABLE": "true"})
case("fx_flag_race", FX, "bad", variables={"TORCH_COMPILE_DISABLE": "1"}, threads=3)
case(
    "compile_disabled",
    "UserWarning: flex_attention called without torch.compile()\ntorch.OutOfMemoryError: CUDA out of memory.\n",
    "skip",
    None,
    ["dense_fallback", "out_of_memory(gpu)"],
    variables={"TORCH_COMPILE_DISABLE": "1"},
    threads=3,
    returncode=1,
)
# import
case("import_broken", "ModuleNotFoundError: No module named 'flash_attn'\n", "skip", returncode=1)
case(
    "ok",
    "WARNING: flash_attn is not available (No module named 'flash_attn'), falling back to sdpa\n" + ST,
    returncode=0,
    threads=3,
)
case(
    "ok",
    "Traceback (most recent call last):\n  File \"/env/site-packages/x/__init__.py\", line 3, in <module>\n    import apex\nModuleNotFoundError: No module named 'apex'\n"
    + ST,
    returncode=0,
    threads=3,
    secondary=["import_broken"],
)
case(
    "fx_flag_race",
    "ImportError: libfoo.so.1: cannot open shared object file: No such file or directory\n"
    + ST
    + "Exception in thread Thread-2:\n"
    + FX
    + "\n"
    + ST,
    "bad",
    returncode=0,
)
case(
    "import_broken",
    "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory\n",
    "skip",
    returncode=1,
)
case(
    "import_broken",
    "OSError: /usr/lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by /env/x.so)\n",
    returncode=1,
)
case(
    "arch_unsupported",
    "ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by /env/x.so)\n",
    returncode=1,
)
case(
    "import_broken",
    "python: symbol lookup error: /env/libtorch_python.so: undefined symbol: PyUnicode_X\n",
    returncode=127,
)
case(
    "import_broken",
    "ImportError: cannot import name 'is_flash_attn_greater' from 'transformers.utils' (/env/x.py)\n",
    returncode=1,
)
case(
    "import_broken",
    "ImportError: DLL load failed while importing _C: The specified module could not be found.\n",
    returncode=1,
)
case(
    "import_broken",
    "AttributeError: partially initialized module 'torch' has no attribute 'nn' (most likely due to a circular import)\n",
    returncode=1,
)
case(
    "other_thread_race(first_import)",
    "Exception in thread Thread-2:\nAttributeError: partially initialized module 'torch._dynamo' has no attribute 'config' (most likely due to a circular import)\n",
    threads=3,
)
case(
    "other_thread_race(mask_metadata)",
    "Exception in thread Thread-2:\nTraceback (most recent call last):\n  File \"/env/site-packages/torch/fx/traceback.py\", line 3, in annotate\n    del x\nKeyError: 'custom'\n",
    threads=3,
)
case(
    "harness_error",
    "Traceback (most recent call last):\n  File \"/home/u/train.py\", line 3, in main\n    cfg['custom']\nKeyError: 'custom'\n",
    threads=3,
    returncode=1,
)
case(
    "other_thread_race(metrics_context)",
    "RuntimeError: Metric(s) {'is_forward'} have already been set in the current context.\n",
    "bad",
    "other_thread_race",
    threads=3,
)
case(
    "compile_error", "RuntimeError: Metric(s) {'is_forward'} have already been set in the current context.\n", threads=1
)
# retry download
case(
    "download_failed",
    "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(... Temporary failure in name resolution)': /simple/torch/\nERROR: Could not find a version that satisfies the requirement torch==2.11.0 (from versions: none)\nERROR: No matching distribution found for torch==2.11.0\n",
    "retry",
    returncode=1,
)
case(
    "ok",
    "WARNING: Retrying (Retry(total=4)) after connection broken by 'ReadTimeoutError(...)': /simple/torch/\nSuccessfully installed torch-2.11.0\n"
    + ST,
    returncode=0,
    threads=3,
    secondary=["download_failed"],
)
case(
    "download_failed",
    "error: Failed to download `torch==2.11.0`\n  Caused by: HTTP status server error (503 Service Unavailable) for url (https://x/y.whl)\n",
    "retry",
    returncode=2,
)
case(
    "download_failed",
    "huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests for url: https://hf\n",
    "retry",
    returncode=1,
)
case(
    "download_failed",
    "pip._vendor.urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool(host='x', port=443): Read timed out.\n",
    "retry",
    returncode=2,
)
case(
    "download_failed",
    "ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer certificate\n",
    "retry",
    returncode=1,
)
case("disk_full", "OSError: [Errno 28] No space left on device\n", "abort", returncode=1)
case("disk_full", "error: failed to write to file `/x`: No space left on device (os error 28)\n", "abort", returncode=2)
case("disk_full", "OSError: [Errno 122] Disk quota exceeded: '/home/u/.cache'\n", "abort", returncode=1)
case(
    "disk_full",
    "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n",
    returncode=1,
)
case(
    "harness_error",
    "RuntimeError: unable to write to file </torch_123_4>: No space left on device (28), /dev/shm is full\n",
    "retry",
    returncode=1,
)
WD = "[rank2]:[E602 11:18:52.531176265 ProcessGroupNCCL.cpp:616] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=610, OpType=ALLREDUCE, NumelIn=5, NumelOut=5, Timeout(ms)=600000) ran for 600007 milliseconds before timing out.\n"
case(
    "hang(nccl_watchdog)",
    ST
    + WD
    + "[rank2]:[E602 11:18:53.1 ProcessGroupNCCL.cpp:684] [Rank 2] Some NCCL operations have failed or timed out.\n[rank2]:[E602 11:18:53.2 ProcessGroupNCCL.cpp:698] [Rank 2] To avoid data inconsistency, we are taking the entire process down.\nterminate called after throwing an instance of 'c10::DistBackendError'\n  what():  [PG ID 0 Rank 2] Process group watchdog thread terminated with exception\nframe #2: c10d::ProcessGroupNCCL::watchdogHandler() + 0x233 (0x15 in /env/lib/libtorch_cuda.so)\nE0602 11:19:00.1 77 torch/distributed/elastic/multiprocessing/api.py:826] failed (exitcode: -6) local_rank: 0 (pid: 970611) of binary: /env/bin/python3\n",
    "retry",
    None,
    ["abort"],
    returncode=1,
)
case(
    "cuda_error",
    "terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  [PG 0 Rank 3] Process group watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be asynchronously reported at some other API call\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n",
    "skip",
    None,
    ["abort"],
    returncode=134,
)
case(
    "fx_flag_race",
    ST
    + 'Exception in thread Thread-2 (train):\nTraceback (most recent call last):\n  File "/env/torch/_dynamo/eval_frame.py", line 9, in compile_wrapper\n    raise RuntimeError(\n'
    + FX
    + "\n"
    + WD,
    "bad",
    None,
    ["hang(nccl_watchdog)"],
    returncode=1,
)
case(
    "fx_flag_race",
    WD + "Exception in thread Thread-2 (train):\n" + FX + "\n",
    "bad",
    None,
    ["hang(nccl_watchdog)"],
    threads=3,
)
case(
    "no_gpu",
    'docker: Error response from daemon: could not select device driver "nvidia" with capabilities: [[gpu]].\n',
    returncode=125,
)
case(
    "no_gpu",
    "docker: Error response from daemon: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: error running hook #0: error running hook: exit status 1, stdout: , stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file: no such file or directory: unknown.\n",
    returncode=127,
)
case(
    "no_gpu",
    "nvidia-container-cli: initialization error: driver rpc error: failed to process request: unknown.\n",
    returncode=125,
)
case(
    "no_gpu",
    'OCI runtime create failed: unable to retrieve OCI runtime error exec: "nvidia-container-runtime": executable file not found in $PATH: : unknown.\n',
    returncode=127,
)
case(
    "no_gpu",
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n",
    returncode=9,
)
case(
    "no_gpu",
    "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from http://www.nvidia.com/Download/index.aspx\n",
    returncode=1,
)
case("no_gpu", "RuntimeError: CUDA error: invalid device ordinal\n", returncode=1)
case(
    "no_gpu",
    "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False.\n",
    returncode=1,
)
case(
    "driver_too_old",
    "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version\n",
    returncode=1,
)
case(
    "driver_too_old",
    "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver by downloading and installing a new version\n",
    returncode=1,
)
case(
    "driver_too_old",
    "torch.AcceleratorError: CUDA error: the provided PTX was compiled with an unsupported toolchain.\n",
    returncode=1,
)
case(
    "driver_too_old",
    "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 560.35\n",
    returncode=18,
)
case(
    "hardware_fault",
    "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 802: system not yet initialized\n",
    "retry",
    returncode=1,
)
case("driver_too_old", "Error 803: system has unsupported display driver / cuda driver combination\n", returncode=1)
case(
    "hardware_fault",
    "[1084456.074562] NVRM: Xid (PCI:0000:09:00): 79, pid=0, GPU has fallen off the bus.\nRuntimeError: CUDA error: unspecified launch failure\n",
    "retry",
    None,
    ["cuda_error"],
    returncode=1,
)
case(
    "cuda_error",
    "Nov 29 12:00:00 node1 kernel: NVRM: Xid (PCI:0000:3b:00): 31, pid=4242, name=python, Ch 0000000c, intr 00000000. MMU Fault: ENGINE GRAPHICS\nRuntimeError: CUDA error: an illegal memory access was encountered\n",
    "skip",
    None,
    [],
    returncode=1,
)
case(
    "hardware_fault",
    "kernel: NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149\nRuntimeError: CUDA error: unspecified launch failure\n",
    returncode=1,
)
case(
    "hardware_fault",
    "RuntimeError: CUDA error: uncorrectable ECC error encountered\nCUDA kernel errors might be asynchronously reported at some other API call\n",
    "retry",
    None,
    [],
    returncode=1,
)
case("hardware_fault", "Unable to determine the device handle for GPU0000:03:00.0: Unknown Error\n", returncode=1)
case("hardware_fault", "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:894)\n")
case(
    "ok",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.65.06\nECC mode enabled, 0 uncorrectable errors\n" + ST,
    "good",
    returncode=0,
    threads=3,
)
case(
    "ok",
    "| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |\n| NVIDIA-SMI 580.65.06   Driver Version: 580.65.06   CUDA Version: 13.0     |\n| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |\n"
    + ST,
    "good",
    returncode=0,
    threads=3,
)
# slurm
case(
    "out_of_memory(host)",
    "slurmstepd: error: Detected 1 oom_kill event in StepId=11300781.0. Some of the step tasks have been OOM Killed.\nsrun: error: sdumont6156: task 0: Out Of Memory\n",
    returncode=137,
)
case(
    "out_of_memory(host)",
    "slurmstepd: error: Detected 2 oom-kill event(s) in step 3756240.batch cgroup.\n",
    returncode=1,
)
case(
    "out_of_memory(host)",
    "Out of memory: Killed process 3141 (python3) total-vm:99999kB, anon-rss:88888kB\n",
    returncode=137,
)
case("out_of_memory(host)", '"State": {"Status": "exited", "OOMKilled": true, "ExitCode": 137}\n')
case("unknown", '"State": {"Status": "exited", "OOMKilled": false, "ExitCode": 1}\n')
case("out_of_memory(host)", "run.sh: line 7: 4242 Killed                  python train.py\n", returncode=137)
case("segfault", "run.sh: line 7: 4242 Segmentation fault      (core dumped) python train.py\n", returncode=139)
case("abort", "run.sh: line 184: 2324239 Aborted                 (core dumped) litgpt pretrain x\n", returncode=134)
case(
    "harness_error",
    ST + "slurmstepd: error: *** JOB 494583 ON node1 CANCELLED AT 2024-04-20T09:09:37 DUE TO TIME LIMIT ***\n",
    "retry",
    returncode=1,
)
case(
    "harness_error",
    ST + "slurmstepd: error: *** JOB 608 ON node1 CANCELLED AT 2022-08-12T02:06:12 DUE TO JOB REQUEUE ***\n",
    "retry",
    returncode=1,
)
case(
    "hardware_fault",
    ST
    + "srun: error: Node failure on node17\nslurmstepd: error: *** JOB 608 ON node17 CANCELLED AT 2022-08-12T02:06:12 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n",
    "retry",
    returncode=1,
)
case("segfault", ST + "srun: error: node1: task 0: Segmentation fault (core dumped)\n", returncode=139)
case("unknown", ST + "srun: error: node1: tasks 2-3: Exited with exit code 1\n")
# compile
case(
    "recompile_limit",
    "W0110 12:27:06.332000 158 torch/_dynamo/convert_frame.py:1551] [2/8] torch._dynamo hit config.recompile_limit (8)\nW0110 12:27:06.332000 158 torch/_dynamo/convert_frame.py:1551] [2/8]    function: 'f' (/x.py:621)\nW0110 12:27:06.332000 158 torch/_dynamo/convert_frame.py:1551] [2/8]    last reason: 2/7: tensor 'X[0]' size mismatch at index 1. expected 640, actual 8.\n"
    + ST,
    "skip",
    None,
    [],
    returncode=0,
    threads=3,
)
case(
    "recompile_limit",
    "torch._dynamo.exc.Unsupported: Dynamo recompile limit exceeded\n  Explanation: x\n  Developer debug context: Limit type: recompile_limit\nThe above exception was the direct cause of the following exception:\ntorch._dynamo.exc.FailOnRecompileLimitHit: Hard failure due to fullgraph=True\n",
    "skip",
    None,
    [],
    returncode=1,
)
case(
    "recompile_limit",
    "torch._dynamo.exc.FailOnRecompileLimitHit: recompile_limit reached with one_graph=True. Excessive recompilations can degrade performance due to the compilation overhead of each recompilation. To monitor recompilations, enable TORCH_LOGS=recompiles.\n",
    returncode=1,
)
case("recompile_limit", "torch._dynamo hit config.cache_size_limit (8)\n" + ST, returncode=0)
case("recompile_limit", "torch._dynamo hit config.accumulated_recompile_limit (256)\n" + ST, returncode=0)
case(
    "recompile_limit",
    "W1129 torch._dynamo hit config.recompile_limit (8)\nUserWarning: flex_attention called without torch.compile() - this will use an unfused implementation that materializes the full scores matrix instead of generating a fused kernel.\ntorch.OutOfMemoryError: CUDA out of memory.\n",
    "skip",
    None,
    ["dense_fallback", "out_of_memory(gpu)"],
    returncode=1,
)
case(
    "ok",
    "torch._dynamo.config.recompile_limit = 64\nrecompile_limit: 8\nconfig.cache_size_limit=1024\n" + ST,
    "good",
    returncode=0,
    threads=3,
)
case(
    "compile_error",
    "torch._inductor.exc.InductorError: CalledProcessError: Command '['/usr/bin/gcc', '/tmp/x/cuda_utils.c', '-O3', '-shared', '-lcuda']' returned non-zero exit status 1.\n",
    returncode=1,
)
case(
    "compile_error",
    "/tmp/tmpx/main.c:1:10: fatal error: Python.h: No such file or directory\nsubprocess.CalledProcessError: Command '['/usr/bin/gcc', '/tmp/x/main.c', '-O3', '-lcuda']' returned non-zero exit status 1.\ntorch._inductor.exc.InductorError: CalledProcessError\n",
    returncode=1,
)
case(
    "compile_error",
    "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nLoweringException: IndexError: tuple index out of range\n",
    returncode=1,
)
case(
    "inconsistent_env",
    "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nImportError: cannot import name 'triton_key' from 'triton.compiler.compiler' (/x)\n",
    returncode=1,
)
case(
    "out_of_memory(triton_smem)",
    "torch._inductor.exc.InductorError: RuntimeError: No valid triton configs. OutOfResources: out of resource: shared memory, Required: 147456, Hardware limit: 101376. Reducing block sizes or `num_stages` may help.\n",
    returncode=1,
)
case(
    "ok",
    "E1129 12:00:00.0 77 torch/_inductor/select_algorithm.py:2000] Runtime error during autotuning: \nE1129 12:00:00.0 77 torch/_inductor/select_algorithm.py:2000] No valid triton configs. OutOfMemoryError: out of resource: triton_mm Required: 131072 Hardware limit:101376 Reducing block sizes or `num_stages` may help.. \nE1129 12:00:00.0 77 torch/_inductor/select_algorithm.py:2000] Ignoring this choice.\n"
    + ST,
    "good",
    returncode=0,
    threads=3,
)
case("arch_unsupported", "ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'\n", returncode=1)
case(
    "arch_unsupported",
    "NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation.\nThe current PyTorch install supports CUDA capabilities sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90.\nRuntimeError: CUDA error: no kernel image is available for execution on the device\n",
    "skip",
    None,
    [],
    returncode=1,
)
case(
    "arch_unsupported",
    "torch._inductor.exc.GPUTooOldForTriton: Found Quadro P2000 which is too old to be supported by the triton GPU compiler, which is used as the backend. Triton only supports devices of CUDA Capability >= 7.0, but your device is of CUDA capability 6.1\n",
    returncode=1,
)
case(
    "checkpoint_mismatch",
    "torch.utils.checkpoint.CheckpointError: torch.utils.checkpoint: A different number of tensors was saved during the original forward and recomputation.\nNumber of tensors saved during forward: 30\nNumber of tensors saved during recomputation: 28.\n",
    returncode=1,
)
case("library_mix", "RuntimeError: cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH\n", returncode=1)
case("cuda_error", "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR\n", returncode=1)
case(
    "out_of_memory(gpu)",
    "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`\n",
    returncode=1,
)
case(
    "cuda_error",
    "../aten/src/ATen/native/cuda/Indexing.cu:1255: indexSelectSmallIndex: block: [3,0,0], thread: [64,0,0] Assertion `srcIndex < srcSelectDimSize` failed.\nRuntimeError: CUDA error: device-side assert triggered\n",
    returncode=1,
)
case("cuda_error", "torch.AcceleratorError: CUDA error: misaligned address\n", returncode=1)
case(
    "library_mix",
    "OMP: Error #15: Initializing libiomp5.so, but found libomp.so already initialized.\n",
    returncode=134,
)
case(
    "out_of_memory(gpu)",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 298.00 GiB. GPU 5 has a total capacity of 139.80 GiB of which 60.00 GiB is free. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.\n",
    "skip",
    returncode=1,
)
case(
    "out_of_memory(host)",
    "RuntimeError: [enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 298000000000 bytes. Error code 12 (Cannot allocate memory)\n",
    returncode=1,
)
case(
    "out_of_memory(host)",
    "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 12.3 GiB for an array with shape (1,) and data type float64\n",
    returncode=1,
)
case("out_of_memory(host)", "RuntimeError: DataLoader worker (pid 4242) is killed by signal: Killed.\n", returncode=1)
case(
    "harness_error",
    "RuntimeError: DataLoader worker (pid 4242) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.\n",
    "retry",
    returncode=1,
)
# import
case(
    "import_broken",
    "WARNING 06-13 11:42:20 _custom_ops.py:11] Failed to import from vllm._C with ImportError('/usr/x/dist-packages/vllm/_C.abi3.so: undefined symbol: _ZN5torch7LibraryC1ENS0_4KindESs')\n",
    returncode=1,
)
case("inconsistent_env", "RuntimeError: operator torchvision::nms does not exist\n", returncode=1)
case(
    "inconsistent_env",
    "ImportError: tokenizers>=0.21,<0.22 is required for a normal functioning of this module, but found tokenizers==0.22.1.\n",
    returncode=1,
)
case(
    "inconsistent_env",
    "RuntimeError: Detected that PyTorch and torchvision were compiled with different CUDA major versions. PyTorch has CUDA Version=13.0 and torchvision has CUDA Version=12.8.\n",
    returncode=1,
)
case("wrong_build", "AssertionError: Torch not compiled with CUDA enabled\n", returncode=1)
case(
    "wrong_build",
    "torch.__version__ = 2.9.1+cu128\n" + ST,
    "skip",
    returncode=0,
    threads=3,
    expected_torch="2.11.0+cu130",
)
case("ok", "torch.__version__ = 2.11.0+cu130\n" + ST, "good", returncode=0, threads=3, expected_torch="2.11.0+cu130")
case("ok", "torch.__version__ = 2.11.0+cu130\n" + ST, "good", returncode=0, threads=3, expected_torch="2.11.0")
case("unknown", ST, "skip", returncode=0, threads=3, expected_torch="2.11.0")
case("unknown", ST, "skip", "nan_loss", returncode=0, threads=1, expected_torch="2.11.0")
case("fx_flag_race", ST + FX, "bad", threads=3, expected_torch="2.11.0")
case(
    "wrong_build",
    "PyTorch version: 2.11.0+cu128\n" + FX,
    "skip",
    None,
    ["fx_flag_race"],
    threads=3,
    expected_torch="2.11.0+cu130",
)
case(
    "wrong_build",
    "torch==2.13.0\nCUDA used to build PyTorch: 12.8\n" + ST,
    "skip",
    returncode=0,
    threads=3,
    expected_torch="2.13.0+cu130",
)
# install
case(
    "not_published",
    "  \u00d7 No solution found when resolving dependencies:\n  \u2570\u2500\u25b6 Because torch==2.6.0 has no wheels with a matching platform tag (e.g., `macosx_15_0_x86_64`) and you require torch==2.6.0, we can conclude that your requirements are unsatisfiable.\n\n      hint: Wheels are available for `torch` (v2.6.0) on the following platforms: `win_amd64`\n",
    "skip",
    returncode=1,
)
case(
    "not_published",
    "  x No solution found when resolving dependencies:\n  `-> Because torch==2.1.1 is unusable because no wheels are available with a matching platform and you require torch==2.1.1, we can conclude that the requirements are unsatisfiable.\n",
    returncode=1,
)
case(
    "not_published",
    "  \u00d7 No solution found when resolving dependencies:\n  \u2570\u2500\u25b6 Because only torch<=2.11.0+cu128 is available and you require\n      torch==2.12.0+cu128, we can conclude that your requirements are\n      unsatisfiable.\n",
    returncode=1,
)
case(
    "resolution_conflict",
    "  \u00d7 No solution found when resolving dependencies:\n  \u2570\u2500\u25b6 Because vllm==0.10.0 depends on torch==2.7.1 and you require torch==2.11.0,\n      we can conclude that vllm==0.10.0 cannot be used.\n",
    returncode=1,
)
case(
    "resolution_conflict",
    "ERROR: Cannot install torch==2.11.0 and vllm==0.10.0 because these package versions have conflicting dependencies.\n\nThe conflict is caused by:\n    The user requested torch==2.11.0\n    vllm 0.10.0 depends on torch==2.7.1\nERROR: ResolutionImpossible: for help visit https://pip\n",
    returncode=1,
)
case(
    "resolution_conflict",
    "  \u00d7 No solution found when resolving dependencies:\n  \u2570\u2500\u25b6 Because the current Python version (3.9.1) does not satisfy Python>=3.10 and torch==2.15.0 depends on Python>=3.10, we can conclude that torch==2.15.0 cannot be used.\n",
    returncode=1,
)
case(
    "build_failed",
    "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated the package versions, please update the hashes.\n",
    "skip",
    returncode=1,
)
case(
    "build_failed",
    "  error: subprocess-exited-with-error\n  \u00d7 python setup.py bdist_wheel did not run successfully.\nERROR: Failed building wheel for flash-attn\n",
    returncode=1,
)
case(
    "disk_full",
    "c++: error writing to /tmp/x.s: No space left on device\nERROR: Failed building wheel for flash-attn\n",
    "abort",
    None,
    ["build_failed"],
    returncode=1,
)
case(
    "out_of_memory(host)",
    "c++: fatal error: Killed signal terminated program cc1plus\nERROR: Failed building wheel for flash-attn\n",
    returncode=1,
)
case(
    "tool_too_old",
    "error: Required uv version `>=0.13` does not match the running version `0.8.2`\n",
    "abort",
    returncode=2,
)
case("tool_too_old", "error: unexpected argument '--exclude-newer-package' found\n", returncode=2)
case(
    "ok",
    "ERROR: pip's dependency resolver does not currently take into account all the packages that are installed. This behaviour is the source of the following dependency conflicts.\nvllm 0.9.0 requires torch==2.7.0, but you have torch 2.9.1 which is incompatible.\nSuccessfully installed numpy-2.3\n",
    returncode=0,
    secondary=["inconsistent_env"],
)
case("hang(deadlock)", "Fatal: possible deadlock detected: thread 3 waits for compile_lock\n", returncode=124)
case("unknown", "\ufffd" * 500 + "PK\x03\x04" + "\ufffd" * 300)
case(
    "env_not_isolated",
    "ERROR torch is imported from outside the environment: /home/u/.local/lib/python3.11/site-packages/torch/__init__.py\n",
    returncode=1,
)


@pytest.mark.parametrize("row", ROWS, ids=ROWS.ids)
def test_a_wording_is_read_as_what_it_means(row):
    """A public report would be named something else, or something harmless would end a run."""
    check_row(row)


LIMIT = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-10-01T10:{} DUE TO TIME LIMIT ***\n"
STAMPED = "".join(f"2026-10-01 10:00:{2 * step:02d} step {step} loss 9.1\n" for step in range(20))
ENDS = (None, 0, 1, 143, -15)


def test_a_run_that_still_made_steps_when_its_time_was_over_did_not_hang():
    """A slow run cut by a time limit would be a hit in a search for a hang."""
    for returncode in ENDS:
        moving = classify(Evidence(log=STAMPED + LIMIT.format("00:41"), returncode=returncode))
        hung = classify(Evidence(log=STAMPED + LIMIT.format("30:00"), returncode=returncode))

        assert (str(moving.outcome), conclude(moving, Outcome.parse("hang"))) == ("harness_error", Conclusion.RETRY)
        assert (str(hung.outcome), conclude(hung, Outcome.parse("hang"))) == ("hang(deadline)", Conclusion.BAD)


@pytest.mark.parametrize(
    "limit",
    [
        LIMIT.format("30:00"),
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n" + LIMIT.format("30:00"),
        "=>> PBS: job killed: walltime 3600 exceeded limit 3600\n",
        "TERM_RUNLIMIT: job killed after reaching LSF run time limit.\n",
        "State: TIMEOUT (exit code 0)\n",
        "Job was active longer than specified deadline\n",
        "walltime exceeded\n",
        LIMIT.format("30:00") + "SignalException: Process 77 got signal: 15\n",
    ],
)
@pytest.mark.parametrize("hunted", ["fx_flag_race", "hang", None])
@pytest.mark.parametrize("returncode", ENDS)
def test_a_time_limit_alone_says_nothing(limit, hunted, returncode):
    """Every job that was given too little time would be a hang, whatever is hunted, or a clean run for its exit code."""
    found = classify(Evidence(log=ST + limit, returncode=returncode, threads=3))

    assert (str(found.outcome), found.detail) == ("harness_error", "time_limit")
    assert conclude(found, Outcome.parse(hunted) if hunted else None) is Conclusion.RETRY
    assert "more time" in found.advice


@pytest.mark.parametrize(
    ("note", "expected", "conclusion"),
    [
        ("container: bus error, most often insufficient shared memory: it had 64 MiB of /dev/shm\n", "harness_error", "retry"),
        ("container: bus error, it had 2048 MiB of /dev/shm\n", "segfault", "bad"),
        ("Bus error (core dumped)\n", "segfault", "bad"),
        ("", "segfault", "bad"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("returncode", [135, -7])
def test_a_bus_error_is_a_crash_unless_something_says_that_memory_was_short(note, expected, conclusion, returncode):
    """A build that crashes with SIGBUS every time would never be convicted, or one in a small container would."""
    found = classify(Evidence(log=ST + note, returncode=returncode))

    assert str(found.outcome) == expected
    assert conclude(found, Outcome.parse("segfault")) is Conclusion(conclusion)


def test_a_thread_that_traces_itself_is_nested_unless_several_ran():
    """One that traces itself fails alone too; of several that compile at once each is inside a trace of its own."""
    log = (
        'Exception in thread Thread-1:\nTraceback (most recent call last):\n  File "/e/torch/fx/_symbolic_trace.py", line 1, in trace\n'
        f'    x\n  File "/e/torch/_dynamo/eval_frame.py", line 2, in compile_wrapper\n    y\n{FX}\n'
    )

    assert str(classify(Evidence(log=log)).outcome) == "nested_fx"
    assert str(classify(Evidence(log=log, threads=3)).outcome) == "fx_flag_race"
    assert str(classify(Evidence(log=log, threads=3, control="failed")).outcome) == "nested_fx"


def test_a_healthy_log_with_every_usual_notice_is_ok():
    """What launchers, NCCL, the autotuner and loggers print on a good day would be read as failures."""
    log = "\n".join(
        (
            "W1129 12:00:00.000000 77 torch/distributed/run.py:792] Setting OMP_NUM_THREADS environment variable for each process",
            "[W1129 12:00:00.1 socket.cpp:697] [c10d] The client socket has failed to connect (errno: 97 - Address family not supported).",
            "node1:77:99 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal net plugin.",
            "node1:77:99 [0] NCCL INFO Failed to open libibverbs.so[.1]",
            "ProcessGroupNCCL environments: TORCH_NCCL_DUMP_ON_TIMEOUT: 1, TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC: 600",
            "NCCL timeout: 1800",
            "watchdog timeout set to 600000 ms",
            "  triton_flex_attention_1 inf ms 0.0%",
            "flash_attn is not installed, using sdpa instead",
            "config: {'on_oom': 'skip', 'detect_nan': True, 'nan_policy': 'raise', 'max_errors': 0, 'max_grad_norm': inf}",
            "memory limit: 64 GB, disk space: 500 GB free, no space problems",
            "|  CUDA OOMs: 0            |        cudaMalloc retries: 0         |",
            "recompile_limit = 64 accumulated_recompile_limit=256",
            "graph breaks: 0 recompiles: 0 dense calls: 0 timeouts: 0",
            "numerics check: max abs diff 1.2e-06 against reference, within tolerance",
            "health: 0 Xid errors, ECC mode enabled, 0 uncorrectable errors, throttling: Not Active",
            *(f"[drafter-{number}] step 1/6 loss 9.31 tok/s 4100 lr 6e-4 grad_norm 1.2" for number in range(3)),
            "INFO compile time: 0.0 s (cached), compiles: 8",
            "INFO errors: 0, warnings: 0, failed: 0",
            *(f"[drafter-{number}] step 6/6 loss 8.31 tok/s 4100" for number in range(3)),
            "best_val_loss: inf -> 8.29",
            "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f>",
            "[rank0]:[W1129 12:10:00.1 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was not called",
            "training finished in 600 s, no NaN, no hang detected, no deadlock detected",
        )
    )
    found = classify(Evidence(log=log, returncode=0))

    assert (str(found.outcome), found.secondary, found.num_threads) == ("ok", (), 3), found.evidence
    assert conclude(found, Outcome.parse("fx_flag_race")) is Conclusion.GOOD
