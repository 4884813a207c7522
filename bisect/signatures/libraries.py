"""Imports, shared libraries, and packages that do not fit each other."""

from __future__ import annotations

from .rule import Role, rule

LIBRARIES = (
    rule(
        "inconsistent_env",
        r"cannot import name ['\"]\w+['\"] from ['\"]triton\b|module ['\"]triton[\w.]*['\"] has no attribute"
        r"|No module named ['\"]triton\.(?!kernels)\w+",
        "triton",
        source="pytorch/pytorch#123042, coreweave/ml-containers#64",
        example="ImportError: cannot import name 'triton_key' from 'triton.compiler.compiler' (/env/triton/compiler.py)",
        detail="triton_mismatch",
        advice="This torch build expects another triton: install the one its metadata pins.",
    ),
    rule(
        "import_broken",
        r"undefined symbol:? ?(?P<symbol>[\w@.]+)|symbol lookup error|undefined reference to symbol"
        r"|symbol not found in flat namespace|Symbol not found: (?P<symbol2>\w+)|procedure could not be found",
        "undefined symbol|symbol lookup|undefined reference|symbol not found|procedure could not",
        source="pytorch/pytorch#119932, Dao-AILab/flash-attention#1832",
        example="ImportError: /env/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommResume",
        detail="undefined_symbol",
    ),
    rule(
        "import_broken",
        r"(?P<library>[\w.+-]+\.so[\w.]*):? cannot open shared object file|error while loading shared libraries"
        r"|(?:could not|cannot|unable to|failed to) (?:load|find|open|dlopen)(?: dynamic| shared)? (?:library )?['\"]?\S*\.so\b"
        r"|Unable to load any of \{|Cannot load symbol \w+|Library not loaded|version [`'\"](?:GLIBCXX|CXXABI|GOMP|OMP|lib\w|GCC)[\w.]*['\"`]? not found"
        r"|lib\w[\w.-]*\.so[\w.]*:? (?:no )?version [`'\"]?\w[\w.]*['\"`]? (?:not found|information available)"
        r"|(?:invalid ELF header|wrong ELF class|file too short|cannot allocate memory in static TLS block|DLL load failed)"
        r"|(?:\w+\.so[\w.]*) (?:not found in|was not found|missing)",
        "cannot open shared object|unable to load any|cannot load symbol|loading shared libraries|.so|not loaded|glibcxx|cxxabi|elf|file too short|static tls"
        "|dll load failed|not found",
        source="ld.so, glibc dlerror texts",
        example="OSError: libcusparseLt.so.0: cannot open shared object file: No such file or directory",
        detail="missing_library",
        unless=r"No space left|GLIBC_[\d.]",
    ),
    rule(
        "inconsistent_env",
        r"version \(?[\w.+]+\)? does not match|does not match .{0,40}version \(?[\w.+]+\)?"
        r"|(?:is|are) required (?:for|by) .{0,80}(?:but|found|have)\b|operator torchvision::nms does not exist"
        r"|compiled with different CUDA (?:major )?versions?|(?:VersionConflict|ContextualVersionConflict|DistributionNotFound)\b"
        r"|detected CUDA version .{0,40}mismatches the version|(?:incompatible|unsupported) (?:version of )?(?:torch|triton|numpy|transformers|flashinfer|torchvision) version"
        r"|requires (?:torch|triton|numpy|transformers)\s?(?:version )?[<>=!~]{1,2} ?[\d.]+.{0,40}\b(?:found|installed|got)\b"
        r"|(?:torch|triton|numpy) version mismatch|PackageNotFoundError|No CTK flavor installed|\S+[<>=]=[\d.]+ is required but found"
        r"|Descriptors cannot be created directly|Couldn't load custom C\+\+ ops",
        "does not match|required|torchvision::nms|different cuda|conflict|distributionnotfound|mismatch"
        "|incompatible|unsupported|requires|packagenotfound|ctk flavor|descriptors cannot|custom c++ ops",
        source="NVIDIA-NeMo/Export-Deploy#679, transformers/utils/versions.py",
        example="RuntimeError: flashinfer-cubin version (0.6.8.post1) does not match flashinfer version (0.6.10).",
        detail="version_gate",
        unless=r"hash|sha256|shape|size|dtype|^\s*(?:UserWarning|DeprecationWarning)|interpreter|lock ?file",
    ),
    rule(
        "inconsistent_env",
        r"(?:but you (?:have|'ll have)|but .{1,60} is installed|which is not installed|has requirement .{1,80} but you)"
        r"|The package `?\S+`? requires `?.{1,80}`?, but",
        "but you|is installed|not installed|but `",
        source="pip check, uv pip check",
        example="vllm 0.9.0 requires torch==2.7.0, but you have torch 2.9.1 which is incompatible.",
        role=Role.REMARK,
        detail="requirement_not_met",
        unless=r"^(?:Requirement already|.*successfully)",
    ),
    rule(
        "inconsistent_env",
        r"Ignoring invalid distribution [~-]\w+|Error processing line \d+ of \S+\.pth",
        "invalid distribution|error processing line",
        source="pip, CPython site.py",
        example="WARNING: Ignoring invalid distribution ~orch (/env/lib/python3.11/site-packages)",
        role=Role.REMARK,
        detail="half_uninstalled",
    ),
    rule(
        "inconsistent_env",
        r"Cannot find a working triton installation|TritonMissing",
        "working triton|tritonmissing",
        source="torch/_inductor/exc.py",
        example="torch._inductor.exc.TritonMissing: Cannot find a working triton installation. Either the package is not installed",
        detail="triton_missing",
        advice="This build expects a triton that is not there: install the one its metadata pins.",
    ),
    rule(
        "import_broken",
        r"numpy\.(?:dtype|ufunc) size changed|compiled using NumPy 1\.x cannot be run|numpy\.core\.multiarray failed to import"
        r"|module compiled against A(?:B|P)I version|_ARRAY_API not found|binary incompatibility",
        "numpy|multiarray|abi version|api version|_array_api|binary incompat",
        source="numpy/core/_multiarray",
        example="ValueError: numpy.dtype size changed, may indicate binary incompatibility.",
        detail="numpy_abi",
    ),
    rule(
        "import_broken",
        r"(?:ModuleNotFound|Import)Error\b|No module named ['\"]?[\w.]+|cannot import name ['\"]?\w+"
        r"|partially initialized module|failed to import .{1,60} because of|DLL load failed",
        "importerror|modulenotfounderror|no module named|cannot import name|partially initialized|failed to import",
        source="CPython",
        example="ModuleNotFoundError: No module named 'setuptools'",
        detail="import",
        unless=r"^\s*(?:except|try|raise|from|import)\b|falling back|fallback|optional|ignor(?:ed|ing)|(?:INFO|DEBUG)\b|will (?:not )?be "
        r"(?:used|disabled)|No module named ['\"]?(?:__main__|dflash)\b",
    ),
    rule(
        "env_not_isolated",
        r"torch\.__file__\W{1,4}\S*(?:/\.local/lib/python|dist-packages)|ENABLE_USER_SITE\W{1,5}True"
        r"|sys\.path\W.{0,400}/\.local/lib/python3|(?:outside|not inside|not in) (?:of )?(?:the )?(?:environment|venv|virtual ?env|prefix)\b"
        r"|(?:shadow(?:s|ed|ing)|picked up|loaded|imported) .{0,60}(?:from )?(?:the )?(?:user[- ]site|~/\.local|/home/\S+/\.local)"
        r"|user[- ]site\b.{0,80}\.local/|\.local/lib/python3[\d.]*/site-packages.{0,60}\b(?:before|first|wins|ahead of|shadows)\b",
        "torch.__file__|user_site|sys.path|outside|not in|shadow|picked up|.local",
        source="princeton-ddss/blackfish#366, spinalcordtoolbox#3067",
        example="torch.__file__ = /home/u/.local/lib/python3.12/site-packages/torch/__init__.py",
        role=Role.NOTICE,
        detail="path_outside",
    ),
)
