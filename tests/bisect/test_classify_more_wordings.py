"""A second, independent set of wordings: other builds, other tools, other ends of the same kinds of failure."""

from __future__ import annotations

from bisect.classify import Evidence, classify

import pytest

from .wordings import FX, ST, Rows, check_row

ROWS = Rows()
case = ROWS.add

case(
    "wrong_build",
    "Successfully installed numpy-2.3.5 torch-2.9.1 torch-c-dlpack-ext-0.1.3 vllm-0.15.0\n",
    "skip",
    returncode=0,
    expected_torch="2.10.0+cu130",
)
case("ok", "Successfully installed torch-2.10.0\n", "skip", returncode=0, expected_torch="2.10.0+cu130")

case(
    "harness_error",
    f"{ST}slurmstepd: error: *** JOB 77 ON node03 CANCELLED AT 2026-11-20T10:00:00 ***\n",
    "retry",
    returncode=0,
)
case("fx_flag_race", f"{ST}RuntimeError: Detected that you are using FX to symbolicall", "bad", returncode=1)

case(
    "harness_error",
    "RuntimeError: block_mask was created for a smaller length than you're using it for, create a new block mask.\n",
    "skip",
    returncode=1,
)

case(
    "harness_error",
    "TypeError: flex_attention() got an unexpected keyword argument 'return_aux'\n",
    "skip",
    returncode=1,
)
case(
    "harness_error",
    "AttributeError: module 'torch.nn.attention.flex_attention' has no attribute 'AuxRequest'\n",
    "skip",
    returncode=1,
)
case(
    "harness_error",
    "AttributeError: torch._dynamo.config.force_compile_during_fx_trace does not exist\n",
    "skip",
    returncode=1,
)
case(
    "harness_error", "TypeError: checkpoint() missing 1 required keyword-only argument: 'use_reentrant'\n", returncode=1
)
case("compile_disabled", "dynamo config: error_on_nested_fx_trace = False\n" + ST, "skip", returncode=0, threads=3)
case("compile_disabled", "{'force_compile_during_fx_trace': True}\n" + ST, "skip", returncode=0, threads=3)
case(
    "fx_flag_race",
    'WON\'T CONVERT forward /x/train.py line 20\ndue to:\nTraceback (most recent call last):\n  File "/env/torch/_dynamo/eval_frame.py", line 9, in compile_wrapper\n    raise RuntimeError(\n'
    + FX
    + "\n"
    + ST,
    "bad",
    returncode=0,
    threads=3,
)
case(
    "fx_flag_race",
    "WARNING caught RuntimeError('Detected that you are using FX to symbolically trace a dynamo-optimized function.'), using the uncompiled module from now on\n"
    + ST,
    "bad",
    returncode=0,
    threads=2,
)
case(
    "import_broken",
    "ImportError: /env/lib/python3.11/site-packages/torch/lib/../../nvidia/cusparse/lib/libcusparse.so.12: undefined symbol: __nvJitLinkAddData_12_1, version libnvJitLink.so.12\n",
    "skip",
    returncode=1,
)
case(
    "import_broken",
    "ImportError: libnvshmem_host.so.3: cannot open shared object file: No such file or directory\n",
    returncode=1,
)
case(
    "import_broken",
    "Could not load library libcudnn_cnn_infer.so.8. Error: libcuda.so: cannot open shared object file: No such file or directory\n",
    returncode=134,
)
case(
    "import_broken",
    "Unable to load any of {libcudnn_cnn.so.9.1.0, libcudnn_cnn.so.9.1, libcudnn_cnn.so.9, libcudnn_cnn.so}\nInvalid handle. Cannot load symbol cudnnCreateConvolutionDescriptor\n",
    returncode=134,
)
case("import_broken", "OSError: /env/lib/libcublas.so.12: file too short\n", returncode=1)
case("import_broken", "ImportError: [sgl_kernel] CRITICAL: Could not load any common_ops library!\n", returncode=1)
case(
    "import_broken",
    "ImportError: libGL.so.1: cannot open shared object file: No such file or directory\n",
    returncode=1,
)
case(
    "import_broken",
    "RuntimeError: Failed to import transformers.models.qwen3.modeling_qwen3 because of the following error (look up to see its traceback):\nlibcudart.so.13: cannot open shared object file: No such file or directory\n",
    returncode=1,
)
case("inconsistent_env", "ModuleNotFoundError: No module named 'triton.ops'\n", returncode=1)
case(
    "inconsistent_env", "AttributeError: module 'triton.language' has no attribute 'constexpr_function'\n", returncode=1
)
case("inconsistent_env", "RuntimeError: No CTK flavor installed: install nvidia-cutlass-dsl[cu13]\n", returncode=1)
case(
    "inconsistent_env",
    "TypeError: Descriptors cannot be created directly.\nIf this call came from a _pb2.py file, your generated code is out of date and must be regenerated with protoc >= 3.19.0.\n",
    returncode=1,
)
case(
    "inconsistent_env",
    "RuntimeError: Couldn't load custom C++ ops. This can happen if your PyTorch and torchvision versions are incompatible, or if you had errors while compiling torchvision from source.\n",
    returncode=1,
)
case(
    "inconsistent_env",
    "importlib.metadata.PackageNotFoundError: No package metadata was found for flashinfer-cubin\n",
    returncode=1,
)
case("inconsistent_env", "ImportError: accelerate>=0.26.0 is required but found accelerate==0.20.1\n", returncode=1)
case(
    "ok",
    "Error processing line 1 of /env/lib/python3.11/site-packages/nvidia_cutlass_dsl_packages.pth:\n\n  Traceback (most recent call last):\n    File \"<frozen site>\", line 195, in addpackage\n  ModuleNotFoundError: No module named 'nvidia_cutlass_dsl'\n\nRemainder of file ignored\n"
    + ST,
    returncode=0,
    threads=3,
)
case(
    "library_mix",
    "LLVM ERROR: inconsistency in registered CommandLine options\n: CommandLine Error: Option 'use-dereferenceable-at-point-semantics' registered more than once!\n",
    returncode=134,
)
case(
    "library_mix",
    "[libprotobuf FATAL google/protobuf/stubs/common.cc:83] This program was compiled against version 3.9.2 of the Protocol Buffer runtime library, which is not compatible with the installed version (3.19.6).\n",
    returncode=134,
)
case("cuda_error", "RuntimeError: CUDA error: operation not permitted when stream is capturing\n", returncode=1)
case("cuda_error", "RuntimeError: CUDA driver error: context is destroyed\n", returncode=1)
case(
    "cuda_error",
    "torch.AcceleratorError: CUDA error: unspecified launch failure\nSearch for `cudaErrorLaunchFailure' in https://docs.nvidia.com\n",
    returncode=1,
)
case("cuda_error", "RuntimeError: CUDA error: an illegal instruction was encountered\n", returncode=1)
case(
    "cuda_error",
    "RuntimeError: Triton Error [CUDA]: an illegal memory access was encountered\nterminate called after throwing an instance of 'c10::AcceleratorError'\nAborted (core dumped)\n",
    "skip",
    None,
    ["abort"],
    returncode=134,
)
case(
    "no_gpu",
    "UserWarning: CUDA initialization: CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env variable CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero.\nRuntimeError: No CUDA GPUs are available\n",
    returncode=1,
)
case("no_gpu", "Failed to initialize NVML: Unknown Error\n", returncode=1)
case("no_gpu", "docker: Error response from daemon: unknown or invalid runtime name: nvidia.\n", returncode=125)
case("hardware_fault", "NCCL WARN Cuda failure 802 'system not yet initialized'\n", returncode=1)
case(
    "hardware_fault",
    "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 'uncorrectable NVLink error detected during the execution'\n",
    returncode=1,
)
case("hardware_fault", "RuntimeError: CUDA error: GPU is lost\n", returncode=1)
case(
    "hardware_fault",
    "kernel: NVRM: Xid (PCI:0000:4b:00): 94, pid=99, name=python, Contained: SM (0x1). RST: No, D-RST: No\nRuntimeError: CUDA error: uncorrectable ECC error encountered\n",
    returncode=1,
    secondary=[],
)
case(
    "download_failed",
    "error: Failed to download distributions\n  Caused by: Failed to fetch wheel: torch==2.11.0\n  Caused by: Failed to extract archive\n  Caused by: request or response body error: operation timed out\n",
    "retry",
    returncode=1,
)
case(
    "download_failed",
    "zipfile.BadZipFile: File is not a zip file\nERROR: Wheel 'torch' located at /tmp/pip/torch.whl is invalid.\n",
    "retry",
    returncode=1,
)
case(
    "download_failed",
    "docker: Error response from daemon: toomanyrequests: You have reached your pull rate limit.\n",
    "retry",
    returncode=125,
)
case(
    "download_failed",
    "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached files.\n",
    "retry",
    returncode=1,
)
case("download_failed", "curl: (6) Could not resolve host: download.pytorch.org\n", "retry", returncode=6)
case(
    "download_failed",
    "ERROR: Could not install packages due to an OSError: HTTPSConnectionPool(host='x', port=443): Max retries exceeded with url: /y (Caused by ReadTimeoutError(\"...\"))\n",
    "retry",
    returncode=1,
)
case(
    "download_failed",
    "requests.exceptions.SSLError: HTTPSConnectionPool(host='x', port=443): Max retries exceeded (Caused by SSLError(SSLEOFError(8, 'EOF occurred in violation of protocol')))\n",
    "retry",
    returncode=1,
)
case(
    "download_failed",
    "error: Request failed after 3 retries\n  Caused by: error sending request for url (https://x/simple/torch/)\n  Caused by: client error (Connect)\n  Caused by: tcp connect error: Connection refused (os error 111)\n",
    "retry",
    returncode=2,
)
case(
    "harness_error",
    "RuntimeError: [c10d] The client socket has timed out after 600s while trying to connect to (10.0.0.1, 29500).\n",
    "retry",
    returncode=1,
)
case(
    "harness_error",
    "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use\n",
    "retry",
    returncode=1,
)
case(
    "not_published",
    "docker: Error response from daemon: manifest for pytorch/pytorch:2.99.0-cuda13.0 not found: manifest unknown: manifest unknown.\n",
    "skip",
    returncode=125,
)
case("not_published", "docker: no matching manifest for linux/arm64/v8 in the manifest list entries.\n", returncode=125)
case(
    "not_published",
    "ERROR: torch-2.11.0-cp311-cp311-manylinux_2_28_aarch64.whl is not a supported wheel on this platform.\n",
    returncode=1,
)
case(
    "not_published",
    "error: HTTP status client error (404 Not Found) for url (https://download.pytorch.org/whl/cu131/torch/)\n",
    returncode=2,
)
case("arch_unsupported", "exec /usr/bin/python3: exec format error\n", returncode=255)
case("arch_unsupported", "Illegal instruction (core dumped)\n", returncode=132)
case("arch_unsupported", "RuntimeError: FlashAttention only supports Ampere GPUs or newer.\n", returncode=1)
case(
    "arch_unsupported",
    "torch._inductor.exc.InductorError: RuntimeError: PTXASError: PTXAS error: Internal Triton PTX codegen error\n`ptxas` stderr:\nptxas fatal   : Value 'sm_103a' is not defined for option 'gpu-name'\n",
    returncode=1,
)
case(
    "build_failed",
    "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.\n",
    returncode=1,
)
case(
    "build_failed",
    "  x Failed to build `flash-attn==2.8.3`\n  |-> The build backend returned an error\n  `-> Call to `setuptools.build_meta:__legacy__.build_wheel` failed (exit status: 1)\n",
    returncode=1,
)
case(
    "harness_error",
    "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n",
    "abort",
    returncode=1,
)
case(
    "segfault",
    'Fatal Python error: Segmentation fault\n\nThread 0x00007f (most recent call first):\n  File "/env/torch/_subclasses/fake_tensor.py", line 1446 in __enter__\n',
    "skip",
    returncode=139,
    threads=4,
)
case(
    "segfault",
    'Current thread 0x00007f2 (most recent call first):\n  File "/env/torch/_dynamo/eval_frame.py", line 3 in f\nSegmentation fault\n',
    returncode=139,
)
case("abort", "terminate called without an active exception\nAborted\n", returncode=134)
case("abort", "double free or corruption (!prev)\n", returncode=134)
case("hang(deadline)", "INFO: task python:4242 blocked for more than 120 seconds.\n", returncode=124)
case(
    "hang(nccl_watchdog)",
    "[rank0]: torch.distributed.DistBackendError: NCCL communicator was aborted on rank 0. Original reason for failure was: NCCL timeout\n",
    returncode=1,
)
case(
    "checkpoint_mismatch",
    "torch.utils.checkpoint.CheckpointError: torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during the forward pass.\ntensor at position 12:\nsaved metadata: {'shape': torch.Size([4])}\n",
    returncode=1,
)
case(
    "checkpoint_mismatch",
    "RuntimeError: torch.utils.checkpoint: Unexpected tensor saved: trying to save more tensors during recomputation than during the original forward pass.\n",
    returncode=1,
)
case(
    "nan_loss", "RuntimeError: Function 'SdpaBackward0' returned nan values in its 0th output.\n", "skip", returncode=1
)
case("nan_loss", "step=12 loss=nan\nstep=13 loss=nan\nTraining completed\n", "bad", "nan_loss", returncode=0)
case("nan_loss", "Epoch 1: 50%|#####     | 50/100 [00:10<00:10, loss=nan, v_num=3]\n", returncode=0)
case("nan_loss", "FloatingPointError: Loss became infinite or NaN at iteration=12!\n", returncode=1)
case("nan_loss", "ValueError: non-finite loss at step 12\n", returncode=1)
case(
    "numeric_mismatch",
    "AssertionError: accuracy check failed: eager and compiled outputs differ from reference by 0.3\n",
    returncode=1,
)
case(
    "numeric_mismatch",
    "E torch._dynamo.utils: RMSE (res-fp64): 0.05, (ref-fp64): 0.00 and shape=torch.Size([4])\nW torch._dynamo.debug_utils: Bad accuracy detected\n",
    returncode=1,
)
case(
    "other_thread_race(fx_patcher)",
    "Exception in thread drafter-1:\nAssertionError: CURRENT_PATCHER is None in finally block\n",
    "skip",
    threads=3,
    control="clean",
)
case(
    "other_thread_race(compile)",
    "Exception in thread drafter-1:\nTraceback (most recent call last):\n  File \"/env/torch/_dynamo/convert_frame.py\", line 3, in f\n    x\ntorch._dynamo.exc.InternalTorchDynamoError: KeyError: 'tensor_dict'\n",
    "bad",
    "other_thread_race",
    threads=3,
    control="clean",
)
case(
    "compile_error",
    "Exception in thread drafter-1:\nTraceback (most recent call last):\n  File \"/env/torch/_dynamo/convert_frame.py\", line 3, in f\n    x\ntorch._dynamo.exc.InternalTorchDynamoError: KeyError: 'tensor_dict'\n",
    "skip",
    threads=3,
    control="failed",
)
case(
    "other_thread_race(shared_state)",
    'Exception in thread Thread-7 (run):\nTraceback (most recent call last):\n  File "/env/torch/_inductor/codecache.py", line 3, in f\n    x\nRuntimeError: dictionary changed size during iteration\n',
    threads=8,
)
case(
    "harness_error",
    'Traceback (most recent call last):\n  File "/home/u/train.py", line 3, in main\n    x\nRuntimeError: dictionary changed size during iteration\n',
    threads=8,
    returncode=1,
)
case(
    "other_thread_race(triton_autotune)",
    "Exception in thread Thread-1:\nTraceback (most recent call last):\n  File \"/env/triton/runtime/autotuner.py\", line 3, in run\n    full_nargs = {**self.nargs, **current}\nTypeError: 'NoneType' object is not a mapping\n",
    threads=2,
)
case(
    "out_of_memory(gpu)",
    "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported\n",
    returncode=1,
)
case("out_of_memory(gpu)", "torch.cuda.OutOfMemoryError: HIP out of memory. Tried to allocate 2 GiB\n", returncode=1)
case(
    "out_of_memory(gpu)",
    "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nFailed to CUDA calloc async 4 bytes\nCuda failure 2 'out of memory'\n",
    returncode=1,
)
case("out_of_memory(host)", "/usr/bin/bash: line 1: 77 Killed python train.py\n", returncode=137)
case(
    "out_of_memory(host)",
    "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n",
    returncode=1,
)
case("out_of_memory(host)", "Container was OOMKilled: true\n", returncode=137)
case("harness_error", "OSError: [Errno 24] Too many open files\n", "skip", returncode=1)
case(
    "disk_full",
    "torch._inductor.exc.InductorError: OSError: [Errno 28] No space left on device: '/tmp/torchinductor_root/x'\n",
    "abort",
    returncode=1,
)
case(
    "disk_full",
    "RuntimeError: [enforce fail at inline_container.cc:659] . unexpected pos 64 vs 0\nPytorchStreamWriter failed writing file data/0: file write failed\nOSError: [Errno 28] No space left on device\n",
    returncode=1,
)
case("disk_full", "docker: failed to register layer: write /usr/lib/x: no space left on device.\n", returncode=1)
case(
    "wrong_build",
    "Uninstalled 2 packages in 5ms\nInstalled 3 packages in 9ms\n - torch==2.10.0+cu130\n + torch==2.9.1\n - triton==3.6.0\n + triton==3.5.1\n",
    "skip",
    returncode=0,
)
case("ok", " + torch==2.11.0\n + triton==3.6.0\nInstalled 2 packages in 9ms\n", "skip", returncode=0)

case(
    "fx_flag_race",
    '  + Exception Group Traceback (most recent call last):\n  |   File "/a.py", line 1, in main\n  |     x\n  | ExceptionGroup: unhandled errors (2 sub-exceptions)\n  +-+---------------- 1 ----------------\n    | Traceback (most recent call last):\n    |   File "/env/torch/_dynamo/eval_frame.py", line 9, in w\n    |     raise RuntimeError(\n    | '
    + FX
    + "\n    +------------------------------------\n",
    "bad",
    threads=3,
)
case(
    "fx_flag_race",
    'pod log:\n    Exception in thread Thread-2:\n    Traceback (most recent call last):\n      File "/a.py", line 1, in main\n        x\n    '
    + FX
    + "\n",
    "bad",
    threads=3,
)
case("fx_flag_race", "E       " + FX + "\n", "bad", threads=3)
case(
    "fx_flag_race",
    'drafter-2 | Traceback (most recent call last):\ndrafter-2 |   File "/a.py", line 1, in main\ndrafter-2 |     x\ndrafter-2 | '
    + FX
    + "\n",
    "bad",
    threads=3,
)
case(
    "ok",
    "V1129 12:00:00.1 77 torch/_dynamo/symbolic_convert.py:460] [0/0] [__graph_breaks] torch._dynamo.exc.Unsupported: call to print\n"
    + ST,
    "good",
    returncode=0,
    threads=3,
)
case(
    "other_thread_race(unnamed)",
    'Exception in thread Thread-4 (worker):\nTraceback (most recent call last):\n  File "/home/u/t.py", line 3, in w\n    x\nIndexError: list index out of range\n',
    "bad",
    "other_thread_race",
    threads=4,
    control="clean",
    returncode=0,
)
case(
    "hang(deadline)",
    "torch.distributed.elastic.multiprocessing.api.SignalException: Process 77 got signal: 15\n",
    "retry",
    returncode=1,
)
case(
    "not_published",
    "error: Failed to fetch: `https://download.pytorch.org/whl/cu131/torch/`\n  Caused by: HTTP status client error (403 Forbidden) for url (https://download.pytorch.org/whl/cu131/torch/)\n",
    "skip",
    returncode=2,
)
case(
    "inconsistent_env",
    "torch._inductor.exc.TritonMissing: Cannot find a working triton installation. Either the package is not installed or it is too old.\n",
    returncode=1,
)
case("compile_error", "RuntimeError: torch.compile is not supported on Python 3.15+\n", returncode=1)
case(
    "ok",
    "WARNING: Ignoring invalid distribution ~orch (/env/lib/python3.11/site-packages)\n" + ST,
    "good",
    returncode=0,
    threads=3,
    secondary=["inconsistent_env"],
)
case(
    "harness_error",
    "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method\n",
    returncode=1,
)
case("ok", "torch.cuda.is_available(): False\n" + ST, "good", returncode=0, threads=3)
case(
    "fx_flag_race",
    'Traceback (most recent call last):\n  File "/a.py", line 1\n    x\nKeyError: \'a\'\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File "/a.py", line 1\n    x\n'
    + FX
    + "\n",
    "bad",
    threads=3,
    returncode=1,
)
case(
    "compile_error",
    "torch._dynamo.exc.TorchRuntimeError: Dynamo failed to run FX node with fake tensors: call_function <built-in function add>: got RuntimeError('Attempting to broadcast')\n",
    returncode=1,
)
case("hang(deadline)", "step 1\nstep 2\nstep 3\n", "retry", returncode=124)
case("too_few_threads", "benchmark ran with 1 worker thread\n" + ST, "skip", returncode=0)
case("fx_flag_race", "num_drafters: 3\n" + ST + FX + "\n", "bad", returncode=1)
case("ok", "OMP_NUM_THREADS=1\nintra-op threads: 1\ntorch.get_num_threads()=1\n" + ST, "good", returncode=0, threads=3)
case("fx_flag_race", "OMP_NUM_THREADS=1\nusing 1 intra-op threads\n" + FX + "\n", "bad", returncode=1)
case("nested_fx", "--threads 1\n" + FX + "\n", "skip", returncode=1)
case(
    "fx_flag_race",
    'Caught RuntimeError in replica 1 on device 1.\nOriginal Traceback (most recent call last):\n  File "/env/torch/nn/parallel/parallel_apply.py", line 3\n    x\n'
    + FX
    + "\n",
    "bad",
    returncode=1,
)
case(
    "recompile_limit",
    ST + "ERROR trainer: Dynamo recompile limit exceeded\n",
    "bad",
    "hang",
    ["hang(deadline)"],
    timed_out=True,
    returncode=-9,
)
case(
    "library_mix",
    ST[:40]
    + "RuntimeError: cuDNN version incompatibility: PyTorch was compiled  against (9, 1, 0) but found runtime version (8, 9, 2). PyTorch already comes bundled with cuDNN.\n",
    returncode=1,
)
case(
    "env_not_isolated",
    'Traceback (most recent call last):\n  File "/env/bin/torchrun", line 3\n    x\n  File "/home/u/.local/lib/python3.11/site-packages/torch/__init__.py", line 5\n    y\nImportError: libcudart.so.12: cannot open shared object file: No such file or directory\n',
    "skip",
    returncode=1,
)
case(
    "hardware_fault",
    ST
    + "CUDA error: an illegal memory access was encountered\n[12.5] NVRM: Xid (PCI:0000:3b:00): 48, pid=1, DBE (double bit error) ECC Error\n",
    "retry",
    None,
    ["cuda_error"],
    returncode=1,
)
case(
    "cuda_error",
    "CUDA error: an illegal memory access was encountered\nDUMP: watchdog caught collective operation timeout\n",
    "skip",
    None,
    ["hang(nccl_watchdog)"],
    returncode=1,
)

case(
    "ok",
    "/env/torchvision/io/image.py:13: UserWarning: Failed to load image Python extension: 'libc10_cuda.so: cannot open shared object file: No such file or directory'\nevaluation done\n",
    returncode=0,
    threads=3,
    secondary=["import_broken"],
)
case(
    "ok", "WARN no heartbeat for 60 s (compiling)\n" + ST, "good", returncode=0, threads=3, secondary=["hang(deadline)"]
)
case(
    "env_not_isolated",
    "user site-packages enabled: /home/u/.local/lib/python3.12/site-packages\n" + ST,
    "skip",
    returncode=0,
    threads=3,
)
case("nothing_compiled", "stats: {'unique_graphs': 0, 'calls_captured': 0}\n" + ST, "skip", returncode=0, threads=3)
case("no_gpu", "Failed to initialize NVML: Insufficient Permissions\n", returncode=1)
case(
    "hang(deadline)",
    "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /default_pg/0//cuda//0\n",
    "retry",
    returncode=1,
)
case("ok", "INFO driver check: 580.65 found, requires driver >= 525: ok\n" + ST, "good", returncode=0, threads=3)
case("ok", "heartbeat timeout: 60\nheartbeat_deadline_s: 120\n" + ST, "good", returncode=0, threads=3)
case("ok", "losses differ from reference by 1e-7, within tolerance\n" + ST, "good", returncode=0, threads=3)
case("import_broken", "ImportError: libfoo.so.2: undefined symbol: bar\n", "skip", returncode=0)
case("unknown", "some words\nmore words\n", "skip", returncode=1)
case(
    "hang(deadline)",
    "heartbeat t=1 step=1\nheartbeat t=2 step=2\nheartbeat t=3 step=3\nno heartbeat for 600 s, killing\n",
    "retry",
    returncode=-9,
)
case(
    "fx_flag_race",
    '{"asctime": "2026-11-29", "levelname": "ERROR", "message": "worker failed", "exc_info": "Traceback (most recent call last):\\n  File \\"/env/torch/_dynamo/eval_frame.py\\", line 1, in w\\n    raise RuntimeError(\\n'
    + FX
    + '"}\n',
    "bad",
    threads=3,
)
case(
    "out_of_memory(gpu)",
    "step 40 flex ok\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\nERROR: caught, retrying with batch 1\nattempt 2/2\n"
    + ST,
    "skip",
    returncode=0,
    threads=3,
)
case("segfault", "Process finished with exit code 139 (interrupted by signal 11: SIGSEGV)\n", "skip")
case("hang(deadline)", "The job exited with exit code 124\n", "retry")
case("arch_unsupported", "exited with code 132\n", "skip")
case("unknown", "exit status 3\n", "skip")


@pytest.mark.parametrize("row", ROWS, ids=ROWS.ids)
def test_a_wording_is_read_as_what_it_means(row):
    """An unseen report of a known kind would be unknown, or named after its loudest line."""
    check_row(row)


def test_an_exception_that_was_logged_and_outlived_stops_nothing():
    """A failed upload of a metric would end a healthy run."""
    log = 'Traceback (most recent call last):\n  File "/env/site-packages/wandb/x.py", line 1, in f\n    x\nCommError: gone\n'

    found = classify(Evidence(log=log + ST, returncode=0, threads=3))

    assert (str(found.outcome), [str(outcome) for outcome in found.secondary]) == ("ok", ["unknown"])


@pytest.mark.parametrize(
    ("expected", "secondary", "log", "returncode"),
    [
        ("hang(nccl_watchdog)", ["unknown"], "Watchdog caught collective operation timeout: WorkNCCL\n{trace}", 1),
        ("segfault", ["unknown"], "{trace}", -11),
        ("unknown", ["hang(deadline)"], "{trace}", 124),
        ("driver_too_old", ["unknown"], "UserWarning: The NVIDIA driver on your system is too old\n{trace}", 1),
        ("cuda_error", ["unknown"], "{trace}CUDA error: misaligned address\n", 1),
    ],
)
def test_an_exception_without_a_name_gives_way_to_what_has_one(expected, secondary, log, returncode):
    """The launcher's own exception would hide the failure that it reports."""
    trace = (
        'Traceback (most recent call last):\n  File "/env/site-packages/torch/multiprocessing/spawn.py", line 1, in join\n'
        "    x\ntorch.multiprocessing.spawn.ProcessRaisedException: process 0 failed\n"
    )
    found = classify(Evidence(log=log.format(trace=trace), returncode=returncode))

    assert str(found.outcome) == expected
    assert [str(outcome) for outcome in found.secondary] == secondary
