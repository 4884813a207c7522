"""Resolvers, downloads, builds and disks: why an environment could not be made."""

from __future__ import annotations

from ..model import Conclusion
from .rule import Role, rule

INSTALL = (
    rule(
        "disk_full",
        r"No space left on device|\bENOSPC\b|Errno 28\b|os error 28\b|Disk quota exceeded|\bEDQUOT\b|Errno 122\b|os error 122\b"
        r"|disk (?:is )?full|(?:not enough|insufficient) (?:free )?(?:disk )?space|no (?:free |disk )space (?:left|available)"
        r"|There is not enough space on the disk|you don't have enough free space|No usable temporary directory",
        "no space|enospc|errno 28|error 28|quota exceeded|edquot|errno 122|error 122|full|space|usable temporary",
        source="errno 28 and 122, pip, docker, sqlite",
        example="OSError: [Errno 28] No space left on device: '/home/u/.cache/uv'",
        unless=r"/dev/shm|shm\b",
    ),
    rule(
        "build_failed",
        r"hash mismatch|HashMismatch|DO NOT MATCH THE HASHES|(?:sha256|checksum|digest) (?:mismatch|does not match|did not match|verification failed)"
        r"|Hashes are required in --require-hashes|expected sha256 .{0,80}got\b",
        "hash|checksum|digest|sha256",
        source="pytorch/pytorch#195141; uv and pip",
        example="error: Hash mismatch for `triton==3.5.0`",
        detail="hash_mismatch",
        # Not a network failure: the file arrived whole and is another one than was locked, and will be again.
        advice="The file is another one than the lock names (an index and a mirror serve different bytes under one "
        "version): pin the index of this package, and lock again.",
    ),
    rule(
        "tool_too_old",
        r"Required uv version .{0,60}does not match|unexpected argument '--[\w-]+' found|no such option: --[\w-]+"
        r"|invalid value '(?:cu|rocm)\S*' for '--torch-backend|unknown field `[\w-]+`|unsupported (?:lock|pylock|metadata).{0,20}version"
        r"|unsupported GNU version|(?:requires?|needs?|need) (?:a newer |at least )?(?:uv|pip|setuptools|gcc|g\+\+|nvcc|cmake|ninja|docker|nox)\b.{0,10}"
        r"(?:>=? ?|version |or newer|or later|at least )[\d.]*|(?:uv|pip|gcc|cmake|docker|nvcc|ninja) (?:is|version \S+ is) too old"
        r"|client version \S+ is too (?:old|new)|CMake \S+ or higher is required|GCC \S+ or (?:newer|later) (?:is )?required"
        r"|Metadata-Version .{0,20}(?:not supported|unsupported)|unrecognized command line option|newer version of uv",
        "uv version|unexpected argument|no such option|--torch-backend|unknown field|unsupported|require|need|too old"
        "|too new|metadata-version|unrecognized command|version of uv",
        source="uv, pip, nvcc, docker",
        example="error: invalid value 'cu132' for '--torch-backend <TORCH_BACKEND>'",
        unless=r"NVIDIA driver|driver on your system|torch==|python_requires|depends on",
    ),
    rule(
        "not_published",
        r"404\b.{0,160}/(?:whl|simple|torch)\b|/(?:whl|simple)/\S*.{0,60}\b404\b"
        r"|403\b.{0,80}/whl/(?:nightly/|test/)?(?:cu|rocm)\d+|/whl/(?:nightly/|test/)?(?:cu|rocm)\d+\S*.{0,60}\b403\b",
        "404|403",
        source="NVlabs/earth2grid#50, PyTorch wheel index",
        example="error: HTTP status client error (404 Not Found) for url (https://index.example/whl/cu131/torch/)",
        detail="no_index",  # the bucket behind PyTorch's index answers 403 for a path that is not there
    ),
    rule(
        "not_published",
        r"manifest unknown|no matching manifest for|manifest for \S+ not found|pull access denied",
        "manifest|pull access denied",
        source="docker",
        example="docker: Error response from daemon: manifest for pytorch/pytorch:2.99.0 not found: manifest unknown",
        detail="no_image",
    ),
    rule(
        "resolution_conflict",
        r"ResolutionImpossible|conflicting dependencies|(?:requirements|dependencies) are (?:incompatible|unsatisfiable)"
        r"|No solution found when resolving|ResolutionTooDeep|SolverProblemError|version solving failed"
        r"|does not satisfy Python ?[<>=~!]|requires a different Python|Requires-Python|UnsatisfiableError|LibMambaUnsatisfiable",
        "resolutionimpossible|conflicting|incompatible|unsatisfiable|no solution|resolutiontoodeep|solverproblem|solving failed"
        "|python",
        source="pip and uv resolvers; pytorch/pytorch#193491",
        example="ERROR: ResolutionImpossible: for help visit the documentation of pip",
        role=Role.WRAPPER,
        unless=r"Ignored the following versions|requires-python = ",
    ),
    rule(
        "not_published",
        r"Could not find a version that satisfies the requirement|No matching distribution found for"
        r"|Because there (?:is|are) no versions? of|was not found in the package registry|has no wheels? with a matching"
        r"|is not a supported wheel on this platform|only has wheels for the following|no versions? of \S+ (?:is|are) available"
        r"|doesn't have a source distribution or wheel for the current platform",
        "satisfies the requirement|no matching distribution|no version|package registry|wheel",
        source="pytorch/pytorch#143434, rsxdalv/TTS-WebUI#561, meta-pytorch/MSLK#474",
        example="ERROR: Could not find a version that satisfies the requirement torch==2.6.0.dev20241217",
        role=Role.WRAPPER,
    ),
    rule(
        "download_failed",
        r"name resolution|Name or service not known|NameResolutionError|Could not resolve host|failed to lookup address|dns error|getaddrinfo failed"
        r"|nodename nor servname|Network is unreachable|No route to host|\bReadTimeoutError\b|ReadTimeout\b|ConnectTimeout|ConnectionResetError"
        r"|(?:HTTPSConnectionPool|HTTPConnectionPool)\(|Connection (?:reset by peer|aborted)|RemoteDisconnected|IncompleteRead|ProtocolError"
        r"|429\b.{0,20}Too Many Requests|Too Many Requests|toomanyrequests|rate[- ]limit(?:ed)?(?: exceeded)?|\b50[0234]\b.{0,6}(?:Server Error|Bad Gateway|Service Unavailable|Gateway|Internal)"
        r"|CERTIFICATE_VERIFY_FAILED|SSLError|SSL: |certificate (?:verify failed|has expired)|invalid peer certificate|TLS handshake|handshake (?:timeout|failure)"
        r"|error sending request|error decoding response body|connection closed before message|request (?:or response )?body error"
        r"|Could not fetch URL|HfHubHTTPError|LocalEntryNotFoundError|ChunkedEncodingError|curl: \(\d+\)|wget: unable|operation timed out.{0,40}https?"
        r"|error trying to connect|tcp connect error|ClientConnectorError|(?:403 Forbidden|401 Unauthorized|407 Proxy).{0,80}|Client Error.{0,60}for url"
        r"|BadZipFile|File is not a zip file|Wheel '\S+' located at \S+ is invalid|Failed to extract archive|unexpected end of file|We couldn't connect to"
        r"|Failed to establish a new connection|Tunnel connection failed|ProxyError|EOF occurred in violation of protocol",
        "resol|service not known|lookup address|dns|getaddrinfo|servname|unreachable|no route|timeout|connection|disconnected|incompleteread"
        "|protocolerror|too many|toomany|rate limit|rate-limit|50|ssl|certificate|tls|handshake|failed to|error sending|response body|body error"
        "|fetch url|hfhub|localentry|chunkedencoding|curl|wget|timed out|connect|403|401|407|client error|proxy|eof occurred|zip|is invalid|extract archive|end of file",
        source="urllib3, reqwest (uv), huggingface_hub, docker",
        example="  Caused by: dns error: failed to lookup address information: Name or service not known",
        unless=r"TCPStore|c10d|NCCL|gloo|rendezvous|MASTER_ADDR|socket\.cpp|404",
    ),
    rule(
        "download_failed",
        r"Failed to (?:download|fetch)\b",
        "failed to download|failed to fetch",
        source="uv; what follows it says why",
        example="error: Failed to fetch: `https://index.example/simple/torch/`",
        role=Role.WRAPPER,
    ),
    rule(
        "build_failed",
        r"Failed (?:building wheel|to build)|subprocess-exited-with-error|metadata-generation-failed|build backend returned an error"
        r"|CMake Error|ninja: build stopped|nvcc fatal|error: command '.{1,120}' failed|CUDA_HOME environment variable is not set"
        r"|fatal error: \S+\.(?:h|hpp|cuh): No such file|could not build wheels|make(?:\[\d+\])?: \*\*\* |collect2: error|Error compiling objects for extension"
        r"|setup\.py.{0,40}(?:failed|did not run successfully)|Failed to build installable wheels|linker command failed"
        r"|(?:The command|process) '?/bin/\w*sh -c.{0,200}returned a non-zero code|failed to solve:",
        "failed|subprocess-exited|metadata-generation|build backend|cmake error|ninja: build|nvcc fatal|cuda_home|fatal error:|could not build"
        "|*** |collect2|error compiling|did not run|non-zero code",
        source="pip, uv, setuptools, CMake, docker build",
        example="ERROR: Failed building wheel for flash-attn",
        role=Role.WRAPPER,
        unless=r"Failed to build C\+\+|HealthCheck",
    ),
    rule(
        "harness_error",
        r"cannot connect to the docker daemon|docker daemon is not running|podman: .{0,40}no such file",
        "docker daemon|podman",
        source="docker",
        example="Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
        detail="no_daemon",
        advice="Start the container engine, or build without containers.",
        conclusion=Conclusion.ABORT,
    ),
    rule(
        "harness_error",
        r"command not found|Too many open files|unrecognized arguments|No module named ['\"]?(?:__main__|dflash)\b|^usage: |the following arguments are required"
        r"|permission denied|is not recognized as an internal",
        "not found|too many open|unrecognized arguments|no module named|usage: |arguments are required|permission denied|not recognized",
        source="bash, argparse, docker",
        example="train.py: error: unrecognized arguments: --stepz 10",
        role=Role.WRAPPER,
        detail="command",
    ),
)
