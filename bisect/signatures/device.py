"""The GPU, its driver, the memory and the node: what the machine says."""

from __future__ import annotations

from ..model import Conclusion
from .rule import Role, rule

MEMORY = (
    # Triton's shared-memory message holds the word OutOfMemoryError: it comes before every other memory rule.
    rule(
        "out_of_memory(triton_smem)",
        r"out of resources?: (?!host|memory)\S+|OutOfResources|uses too much shared data"
        r"|Required: ?\d+,? Hardware limit: ?\d+",
        "out of resource|outofresources|shared data|hardware limit",
        source="pytorch/pytorch#180278, #133254",
        example="OutOfMemoryError: out of resource: triton_tem_fused_flex_attention_0 Required: 139776 Hardware limit: 101376",
        unless=r"Ignoring this choice|Ignoring choice",
        unless_after=r"Ignoring (?:this )?choice",
        advice="Set smaller kernel_options block sizes (BLOCK_M, BLOCK_N, num_stages) for this GPU.",
    ),
    rule(
        "ok",
        r"Ignoring (?:this )?choice|Skipping import of cpp extensions due to incompatible torch version"
        r"|errno: 97 - Address family not supported|Exception ignored in:",
        "ignoring this choice|ignoring choice|skipping import of cpp extensions|errno: 97|exception ignored in",
        source="Comfy-Org/ComfyUI#10371, pytorch/ao#3817, torch/_inductor/select_algorithm.py, c10d/socket.cpp",
        example="Skipping import of cpp extensions due to incompatible torch version 2.9.1 for torchao 0.15",
        role=Role.REMARK,
        detail="benign",
    ),
    rule(
        "out_of_memory(host)",
        r"\bOUT_OF_ME(?:MORY\b|\+)|oom[-_ ]kill(?:er|ed)?\b(?!.{0,12}(?:disabled|off|=0)\b)|OOMKilled\W{0,4}(?:true|:|\Z|\s|$)"
        r"|Out of memory: Kill(?:ed)? process|Memory cgroup out of memory"
        r"|node running low on memory|exceeded (?:job |step )?memory limit|memory limit exceeded|killed by signal: Killed"
        r"|Killed signal terminated program|\btasks? [\d,-]+: Out Of Memory\b",
        "oom|out_of_me|low on memory|out of memory|memory cgroup|memory limit|signal: killed|killed signal",
        source="Linux kernel log, slurmstepd, torch/utils/data/_utils/signal_handling.py",
        example="slurmstepd: error: Detected 1 oom_kill event in StepId=123.0. Some of the step tasks have been OOM Killed.",
        unless=r"oom[_-]score|oom_kill_disable|OOMKilled\W{0,4}false",
    ),
    rule(
        "out_of_memory(host)",
        r"DefaultCPUAllocator: (?:can't allocate|not enough) memory|^(?:\w+\.)*_?(?:Array)?MemoryError\b"
        r"|Cannot allocate memory|std::bad_alloc|Unable to allocate [\d.]+ [KMGT]i?B for an array|os error 12\b"
        r"|\bENOMEM\b|MemoryError: Unable to allocate|not enough memory: you tried to allocate",
        "cpuallocator|memoryerror|cannot allocate memory|bad_alloc|unable to allocate|error 12|enomem|not enough memory",
        source="c10/core/impl/alloc_cpu.cpp, errno 12",
        example="RuntimeError: [enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory",
    ),
    rule(
        "out_of_memory(gpu)",
        r"(?:CUDA|HIP|XPU|NVML|GPU)(?: driver)?(?: error)?:? out of memory|\bOutOfMemoryError\b|CUDA_ERROR_OUT_OF_MEMORY"
        r"|cudaErrorMemoryAllocation|(?:CUBLAS|CUDNN|CUSOLVER|CUSPARSE)_STATUS_(?:INTERNAL_ERROR_)?\w*ALLOC_FAILED"
        r"|hipErrorOutOfMemory|Cuda failure (?:2 )?'?out of memory|failed to allocate \S+ (?:[KMG]i?B )?(?:on|of) (?:GPU|device)",
        "out of memory|outofmemory|out_of_memory|memoryallocation|alloc_failed|failed to allocate",
        source="c10/cuda/CUDACachingAllocator.cpp",
        example="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 11.00 GiB. GPU 5 has a total capacity of 79 GiB",
    ),
)

DRIVER = (
    rule(
        "driver_too_old",
        r"forward compatibility was attempted on non supported HW|CUDA_ERROR_COMPAT_NOT_SUPPORTED",
        "forward compatibility|compat_not_supported",
        source="gpustack/gpustack#1254",
        example="RuntimeError: Error 804: forward compatibility was attempted on non supported HW",
        detail="compat_libraries",
        advice="Forward-compatibility libraries (cuda-compat) stand before the driver's own, and this GPU does not allow "
        "them: take their directory (/usr/local/cuda/compat) out of LD_LIBRARY_PATH, or a build for the driver's CUDA.",
    ),
    rule(
        "driver_too_old",
        r"NVIDIA driver .{0,60}too old|driver too old|CUDA driver version is insufficient|cudaErrorInsufficientDriver"
        r"|unsatisfied condition: (?:cuda|driver)\s*[>=]"
        r"|(?:PTX|ptx) was compiled with an unsupported toolchain|cudaErrorUnsupportedPtxVersion"
        r"|CUDA_ERROR_(?:SYSTEM_DRIVER_MISMATCH|UNSUPPORTED_PTX_VERSION)"
        r"|unsupported display driver / cuda driver combination"
        r"|(?:requires?|needs?) (?:an? )?(?:NVIDIA |CUDA |GPU )?driver (?:version )?(?:>=? ?)?\d+"
        r"|driver .{0,40}(?:older than|below) (?:the )?(?:minimum|required)|please update your (?:GPU|NVIDIA) driver",
        "driver|unsupported toolchain|unsupportedptx|condition: cuda|unsupported_ptx",
        source="pytorch/pytorch#162531, NVIDIA/nvidia-container-toolkit#152, gpustack/gpustack#1254",
        example="UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 12080).",
        detail="driver",
        unless=r"\b(?:ok|satisfied|passed|sufficient for)\b",
    ),
    rule(
        "driver_too_old",
        r"(?:Driver/library|driver and library|kernel.{0,20}client) version mismatch|NVML library version:",
        "version mismatch|nvml library version",
        source="NVIDIA NVML: NVML_ERROR_LIB_RM_VERSION_MISMATCH",
        example="Failed to initialize NVML: Driver/library version mismatch",
        detail="driver_library_mismatch",
        advice="The kernel module is older than the driver's libraries: reboot the node or reload the module.",
        conclusion=Conclusion.ABORT,
    ),
    rule(
        "arch_unsupported",
        r"no kernel image is available|cudaErrorNoKernelImageForDevice|CUDA_ERROR_NO_BINARY_FOR_GPU"
        r"|CUDA capability sm_\w+ is not compatible with the current PyTorch|is too old for (?:PyTorch|the triton|triton)"
        r"|GPUTooOldForTriton|Triton only supports devices? (?:of|with) CUDA capability"
        r"|only supports? (?:Ampere|Hopper|Turing|Volta|Blackwell) GPUs?"
        r"|Value '\w*sm_\w+' is not defined for option|unsupported (?:gpu|target) architecture"
        r"|not supported for (?:the )?(?:arch|gpu|target) ?sm_?\d+|nvrtc: error: invalid value for --gpu-architecture",
        "no kernel image|nokernelimage|no_binary_for_gpu|cuda capability|too old for|gputooold|gpus|sm_|architecture",
        source="pytorch/pytorch#172663, torch/cuda/__init__.py, torch/_inductor/exc.py",
        example="CUDA error: no kernel image is available for execution on the device",
    ),
    rule(
        "arch_unsupported",
        r"version [`'\"]GLIBC_[\d.]+['\"`]? not found|exec format error|illegal instruction|\bSIGILL\b"
        r"|(?:signal|exitcode)\s*:?\s*-?4\b.{0,20}SIGILL",
        "glibc_|exec format|illegal instruction|sigill",
        source="ld.so, bash",
        example="ImportError: /lib64/libc.so.6: version `GLIBC_2.34' not found (required by /env/lib/libnvshmem.so)",
        unless=r"CUDA error|an illegal instruction was encountered",
    ),
    rule(
        "no_gpu",
        r"No CUDA GPUs? (?:are|is) available|Found no NVIDIA driver|no CUDA-capable device is detected|cudaErrorNoDevice"
        r"|CUDA_ERROR_NO_DEVICE|could not select device driver|couldn't communicate with the NVIDIA driver"
        r"|Failed to initialize NVML: (?!Driver/library)|might not have a CUDA gpu|NVML Shared Library Not Found"
        r"|NVMLError_LibraryNotFound|invalid device ordinal|CUDA_ERROR_INVALID_DEVICE\b|nvidia-smi: (?:command )?not found"
        r"|libnvidia-ml\.so\S* (?:not found|cannot)|No (?:GPU|CUDA device)s? (?:found|detected|available)\b"
        r"|(?:unknown or invalid|unknown) runtime name: nvidia|unresolvable CDI devices?|nvidia-container-cli: initialization error"
        r"|torch\.cuda\.is_available\(\) is False|CUDA unknown error - this may be due to|nvidia-container-cli: (?!requirement)|exec: .{0,2}nvidia-container-runtime.{0,40}not found",
        "gpu|nvidia|cuda|nvml",
        source="torch/csrc/cuda/Module.cpp, docker, nvidia-container-cli",
        example="RuntimeError: No CUDA GPUs are available",
    ),
    rule(
        "wrong_build",
        r"Torch not compiled with (?:CUDA|ROCm) enabled",
        "torch not compiled with",
        source="torch/cuda/__init__.py",
        example="AssertionError: Torch not compiled with CUDA enabled",
        advice="A CPU-only torch was installed where a CUDA one was asked for.",
    ),
)

HARDWARE = (
    rule(
        "hardware_fault",
        r"cudaErrorSystemNotReady|system not yet initialized|CUDA_ERROR_SYSTEM_NOT_READY",
        "systemnotready|system not yet|system_not_ready",
        source="CUDA runtime API errors (802)",
        example="RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized",
        detail="fabric_manager",
        advice="The fabric manager of this node does not run (systemctl status nvidia-fabricmanager): have it started, or run "
        "again on another node.",
    ),
    rule(
        "hardware_fault",
        r"\bXid(?: \(PCI:[^)]*\))?:? ?(?!(?:13|31|32|43|45|66|68|69|109)\b)\d+\b",
        "xid",
        source="NVIDIA Xid errors manual: 13, 31, 43, 45 and their kin come from the application",
        example="NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, name=python, GPU has fallen off the bus.",
        unless=r"\b(?:no|0) xid",
    ),
    rule(
        "hardware_fault",
        r"fallen off the bus|uncorrectable (?:volatile )?(?:NVLink |ECC )?error|ECC_UNCORRECTABLE|cudaErrorECCUncorrectable"
        r"|\buncorrectable ECC\b|\b(?:double[- ]bit|DBE) ECC\b|\bGPU is lost\b|GPU_IS_LOST|reset required|GPU requires (?:a )?reset"
        r"|NVLINK_UNCORRECTABLE|NVLink .{0,40}(?:fatal|fault)|hardware stack error|cudaErrorHardwareStackError"
        r"|row[- ]remap\w* (?:failure|failed|pending)|Machine check events? logged|mce: \[Hardware Error\]"
        r"|\[Hardware Error\]"
        r"|DUE TO NODE FAILURE|\bNODE_FAIL\b|Node failure on|RmInitAdapter failed|Unable to determine the device handle|Uncorrected \(Fatal\)|GPU .{0,30}(?:unhealthy|has died)",
        "fallen off|ecc|dbe|is lost|is_lost|reset|nvlink|hardware|row-remap|row remap|machine check"
        "|node failure|node_fail|unhealthy|has died|rminitadapter|device handle|uncorrected",
        source="NVIDIA Xid errors manual, CUDA runtime API errors, Slurm",
        example="RuntimeError: CUDA error: uncorrectable ECC error encountered",
        unless=r"connection reset|reset by peer|ECC (?:mode|enabled|errors?\W+0)|0 uncorrectable|uncorrectable\W+0\b|\bno uncorrectable",
    ),
    rule(
        "hardware_fault",
        r"(?:GPU|HW|SW|thermal)[ _]?(?:is |was )?(?:thermal(?:ly)?[ _-]?)?(?:throttled|throttling|slowdown)\b.{0,30}(?:threshold|active|temp)",
        "throttl|slowdown",
        source="flashinfer-ai/flashinfer#2899, NVIDIA/nvbench#206",
        example="warning: GPU throttled below threshold (1237 MHz)",
        role=Role.REMARK,
        detail="throttled",
        unless=r"not active",
        advice="The clock fell during the run: do not compare its throughput.",
    ),
)

CUDA = (
    rule(
        "harness_error",
        r"invalid device context|CUDA_ERROR_INVALID_CONTEXT|cudaErrorDeviceUninitiali[sz]ed",
        "invalid device context|invalid_context|deviceuninitiali",
        source="triton-lang/triton#3729",
        example="RuntimeError: Triton Error [CUDA]: invalid device context",
        detail="thread_without_context",
        advice="Call torch.cuda.set_device in every thread before it launches anything; the build is not to blame.",
    ),
    rule(
        "library_mix",
        r"SUBLIBRARY_VERSION_MISMATCH|cuDNN version incompatibility: PyTorch was compiled\s+against"
        r"|(?:Initializing|Found) \S*(?:iomp|libgomp|libomp)\S*,? but found|OMP: Error #15"
        r"|registered more than once|CommandLine Error: Option|loaded (?:two|2|both|multiple)\b.{0,40}(?:libcu|libnccl|cudnn|nccl|libomp)"
        r"|(?:NCCL|cuDNN|cuBLAS).{0,20}version mismatch|Protocol Buffer runtime library, which is not compatible"
        r"|(?:libcudart|libcudnn|libnccl|libcublas)\S*.{0,40}loaded (?:twice|from two)",
        "version_mismatch|version incompatibility|but found|omp: error|more than once|commandline error|loaded "
        "|version mismatch|protocol buffer runtime",
        source="pytorch/pytorch#188892, invoke-ai/InvokeAI#6052, apache/tvm#18316",
        example="RuntimeError: cuDNN version incompatibility: PyTorch was compiled  against (9, 1, 0) but found (8, 9, 2)",
    ),
    rule(
        "cuda_error",
        r"illegal memory access|misaligned address|device-side assert(?:ion)? triggered|unspecified launch failure"
        r"|ILLEGAL_ADDRESS|cudaErrorIllegalAddress|CUDA_ERROR_\w+|warp illegal|an illegal instruction was encountered"
        r"|block: \[\d+, ?\d+, ?\d+\], thread: \[\d+.{0,30}Assertion",
        "illegal|misaligned|device-side assert|launch failure|cuda_error_|assertion",
        source="meta-pytorch/attention-gym#96, CUDA driver API errors",
        example="RuntimeError: Triton Error [CUDA]: an illegal memory access was encountered",
        advice="The process is poisoned from here on: repeat in a fresh one, with CUDA_LAUNCH_BLOCKING=1 to find the kernel.",
    ),
    rule(
        "cuda_error",
        r"(?:CUDA|HIP)(?: driver| runtime)? error\b|Triton Error \[(?:CUDA|HIP)\]|CUDNN_STATUS_\w+|CUBLAS_STATUS_\w+"
        r"|CUSOLVER_STATUS_\w+|CUSPARSE_STATUS_\w+|CUFFT_\w+|cuDNN error|cuFFT error|NVRTC_ERROR\w*|cudaError\w+"
        r"|Xid \(PCI[^)]*\): (?:13|31|43|45)\b|too many resources requested for launch|AcceleratorError",
        "error|_status_|cufft|xid|too many resources",
        source="c10/cuda/CUDAException.h, cuDNN and cuBLAS manuals",
        example="RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
        unless=r"CUDA error(?:s)?: 0\b|CUDA kernel errors might be|cudaErrorNotReady|errors=0",
    ),
    rule(
        "cuda_error",
        r"nccl(?:UnhandledCudaError|SystemError|InternalError|InvalidUsage|InvalidArgument|RemoteError)"
        r"|NCCL (?:WARN )?(?:Cuda )?(?:error|failure)\b|NCCL error in",
        "nccl",
        unless=r"/dev/shm",
        source="torch/csrc/distributed/c10d/NCCLUtils.hpp",
        example="torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:94, ncclRemoteError",
        role=Role.SYMPTOM,
        detail="nccl",
    ),
)
