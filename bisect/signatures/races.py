"""Thread races and what the compiler says: the FX flag, its siblings, recompile limits, fallbacks, compile errors.

A message that is known from threads is a race only if a single thread does not show it too; the classifier decides
that from the thread count and the control run, not this table.
"""

from __future__ import annotations

from .rule import Role, rule

RACES = (
    # The sibling of the FX message shares its first words and is deterministic: it comes first.
    rule(
        "compile_error",
        r"using FX to torch\.jit\.trace a dynamo-optimized function",
        "torch.jit.trace a dynamo",
        source="facebookresearch/fvcore#150",
        example="RuntimeError: Detected that you are using FX to torch.jit.trace a dynamo-optimized function.",
        detail="jit_trace",
        advice="Something jit-traces a compiled function (a FLOP counter, an exporter): trace the original one.",
    ),
    rule(
        "fx_flag_race",
        r"Detected that you are using FX to (?:(?:symbolically )?trace a dynamo-optimized function(?:\. This is not supported at the moment\.?)?|symbolically?[a-z -]{0,24}\Z)",
        "detected that you are using fx to",
        source="pytorch/pytorch#126024",
        example="RuntimeError: Detected that you are using FX to symbolically trace a dynamo-optimized function.",
    ),
    rule(
        "other_thread_race(fx_patcher)",
        r"CURRENT_PATCHER (?:is None|was changed)|revert_all_patches",
        "current_patcher|revert_all_patches",
        source="pytorch/pytorch#187589",
        example="AssertionError: CURRENT_PATCHER is None in finally block",
        unless=r"^\s*File ",
    ),
    rule(
        "other_thread_race(mask_metadata)",
        r"KeyError: ['\"]custom['\"]",
        "keyerror: 'custom'|keyerror: \"custom\"",
        source="pytorch/pytorch#184917",
        example="KeyError: 'custom'",
    ),
    rule(
        "other_thread_race(metrics_context)",
        r"Metric\(s\) .{0,200}already been set in the current context|Cannot add \S+ outside of a MetricsContext",
        "metric(s) |metricscontext",
        source="pytorch/pytorch#170605",
        example="RuntimeError: Metric(s) {'is_forward'} have already been set in the current context.",
    ),
    rule(
        "other_thread_race(first_import)",
        r"partially initialized module ['\"]torch\.(?:_dynamo|_inductor|_functorch|fx|_subclasses|_logging)"
        r"|KeyError: ['\"]torch\._(?:dynamo|inductor|functorch)"
        r"|cannot import name ['\"]\w+['\"] from partially initialized module ['\"]torch\._"
        r"|cannot import name ['\"]IndentedBuffer['\"]",
        "partially initialized module|keyerror: 'torch._|keyerror: \"torch._|indentedbuffer",
        source="unslothai/unsloth#10963",
        example="AttributeError: partially initialized module 'torch._dynamo' has no attribute 'external_utils'",
        advice="Import torch._dynamo and torch._inductor.compile_fx in the main thread before the threads start.",
    ),
    rule(
        "other_thread_race(cudagraph_tls)",
        r"_is_key_in_tls\(attr_name\)",
        "_is_key_in_tls",
        source="pytorch/pytorch#123177",
        example="    assert torch._C._is_key_in_tls(attr_name)",
        in_source=True,
    ),
    rule(
        "other_thread_race(config_patch)",
        r"prior should be empty when entering ConfigPatch",
        "configpatch",
        source="pytorch/pytorch#118260",
        example="AssertionError: prior should be empty when entering ConfigPatch",
    ),
    rule(
        "other_thread_race(node_meta)",
        r"expected preserved node meta",
        "preserved node meta",
        source="torch/fx/traceback.py, measured with four threads on 2.11.0 and 2.12.1",
        example="AssertionError: expected preserved node meta",
    ),
    rule(
        "other_thread_race(shared_state)",
        r"generator already executing|(?:dictionary|set|OrderedDict) (?:changed size|keys changed|mutated) during iteration"
        r"|deque mutated during iteration|pop from an empty (?:set|deque)",
        "generator already executing|during iteration|pop from an empty",
        source="pytorch/pytorch#168042",
        example="ValueError: generator already executing",
    ),
    rule(
        "other_thread_race(triton_autotune)",
        r"'NoneType' object (?:is not a mapping|is not iterable|has no attribute|is not subscriptable).{0,80}\bnargs\b"
        r"|'Autotuner' object has no attribute 'nargs'|self\.nargs\b.{0,60}None",
        "nargs",
        source="triton-lang/triton#11494",
        example="AttributeError: 'Autotuner' object has no attribute 'nargs'",
    ),
)

COMPILER = (
    rule(
        "recompile_limit",
        r"FailOnRecompileLimitHit|RecompileLimitExceeded",
        "failonrecompilelimithit|recompilelimitexceeded",
        source="pytorch/pytorch#186537",
        example="torch._dynamo.exc.FailOnRecompileLimitHit: Hard failure due to fullgraph=True",
    ),
    rule(
        "recompile_limit",
        r"(?:dynamo )?(?:accumulated[ _])?(?:recompil\w*|cache[ _]size)[ _]limit (?:was |is |has been )?exceeded"
        r"|exceeded (?:the )?(?:dynamo )?(?:config\.)?(?:accumulated_)?(?:recompile|cache_size)[ _]limit",
        "exceeded",
        source="pytorch/torchtitan#3898",
        example="RuntimeError: Dynamo recompile limit exceeded",
    ),
    rule(
        "recompile_limit",
        r"\bhit (?:the )?(?:torch\._dynamo\.)?(?:config\.)?(?:accumulated_)?(?:recompile|cache_size)[ _]limit"
        r"|(?:recompil\w*|cache[ _]size)[ _]limit (?:was |is |has been |of \d+ )?(?:hit|reached|used up|exhausted)"
        r"|(?:hit|reached|reaching) (?:the )?(?:dynamo )?(?:accumulated )?(?:recompil\w*|cache[ _]size)[ _]limit",
        "limit",
        source="vllm-project/vllm#27178",
        example="torch._dynamo hit config.recompile_limit (8)",
        role=Role.NOTICE,
    ),
    rule(
        "dense_fallback",
        r"flex_attention called without torch\.compile"
        r"|materiali[sz]es the full scores? matrix"
        r"|fall(?:ing)?[ -]?(?:s |ing )?back to (?:the )?(?:dense|unfused|eager|math) (?:flex_?)?attention",
        "without torch.compile|full score|back to",
        source="vllm-project/vllm#27178",
        example="UserWarning: flex_attention called without torch.compile() - this will use an unfused implementation",
        role=Role.NOTICE,
    ),
    rule(
        "checkpoint_mismatch",
        r"CheckpointError: torch\.utils\.checkpoint"
        r"|recomputed values for the following tensors have different metadata"
        r"|different number of tensors was saved during the original forward and recomputation"
        r"|trying to save more tensors during recomputation",
        "checkpointerror|recomput",
        source="torch/utils/checkpoint.py",
        example="torch.utils.checkpoint.CheckpointError: torch.utils.checkpoint: Recomputed values for the following "
        "tensors have different metadata than during the forward pass.",
    ),
    rule(
        "harness_error",
        r"block_mask was created for (?:block_mask\.shape=|a smaller length)|FlexAttention does not support backward on CPU"
        r"|torch\.compile on (?:CPU|current platform) (?:only supports inference|is not supported for CPU)",
        "block_mask was created for|does not support backward on cpu|torch.compile on c",
        source="meta-pytorch/attention-gym#122, pytorch/pytorch#169646",
        example="ValueError: block_mask was created for block_mask.shape=(1, 1, 256, 512) but got q_len=300",
        detail="api_change",
        advice="From this build on the benchmark needs a code change; skip these builds for any other question.",
    ),
    rule(
        "harness_error",
        r"got an unexpected keyword argument|missing \d+ required (?:positional|keyword-only) argument"
        r"|takes (?:from )?\d+ .{0,20}positional arguments? but|module ['\"](?:torch|transformers)[\w.]*['\"] has no attribute"
        r"|torch\._\w+\.config\.\w+ does not exist",
        "unexpected keyword|required positional|required keyword-only|positional argument|has no attribute|does not exist",
        source="CPython, torch/utils/_config_module.py",
        example="TypeError: flex_attention() got an unexpected keyword argument 'return_aux'",
        detail="api_change",
        advice="This build's interface is another one: the benchmark needs a code change to run on it; skip it until then.",
    ),
    rule(
        "compile_disabled",
        r"error_on_nested_fx_trace['\"]?\s*[=:]\s*False|force_compile_during_fx_trace['\"]?\s*[=:]\s*True",
        "error_on_nested_fx_trace|force_compile_during_fx_trace",
        source="torch/_dynamo/eval_frame.py: the call runs eager, or the check is skipped",
        example="torch._dynamo.config.error_on_nested_fx_trace = False",
        role=Role.NOTICE,
        detail="fx_check",
        advice="The check that raises is switched off by this setting: run without it to see whether the race is there.",
    ),
    rule(
        "compile_disabled",
        r"(?:torch\.?_?compile\w*|\bdynamo|torchdynamo|inductor(?: compilation)?|\bcompilation|\bcompiler)(?:\(\))? (?:(?:is|was|has been|will be|got) )?"
        r"(?:globally |explicitly |completely )?(?:disabled|turned off|switched off)\b(?! (?:code|cache|cudagraph))"
        r"|\b(?:disabling|turning off|switching off) (?:torch\.compile|(?:torch)?dynamo|compilation)\b"
        r"|(?:environ\[['\"])?\b(?:TORCHDYNAMO_DISABLE|TORCH_COMPILE_DISABLE)['\"\]]*\s?[=:]\s?['\"]?(?:1|true)\b"
        r"|dynamo\.config\.disable\s*=\s*True|\bstance\b\W{1,4}force_eager|set_stance\(['\"]force_eager",
        "disabled|turned off|switched off|disabling|turning off|switching off|dynamo_disable|compile_disable|config.disable|force_eager",
        source="torch/_dynamo/eval_frame.py (a switch of its own says so, the two variables are silent); vllm-project/vllm",
        example="Dynamo disabled by Justknob: enable_compiler_set_eval_frame, skipping set_eval_frame",
        role=Role.NOTICE,
        detail="said_disabled",
        unless=r"(?:disabled|turned off|switched off)['\"]?\s*[:=]\s*(?:false|no|0|none)\b"
        r"|\b(?:set|setting|export|try|use|using|pass|add|with|by|via|unless|if|when|whether|unset) (?:the )?(?:variable |environment variable |-e |-x |--env )?"
        r"[\w.]*(?:TORCHDYNAMO_DISABLE|TORCH_COMPILE_DISABLE|config\.disable|set_stance)"
        r"|\b(?:if|when|whether|unless|until|while|never|not|without)\b.{0,20}(?:compile\w*|dynamo|compilation|compiler)(?:\(\))? (?:(?:is|was|be|been) )?disabled"
        r"|disabl(?:ed|ing) (?:torch\.compile )?(?:only |just )?(?:for|in|during|on) (?:the )?(?:\w+ )?(?:eval\w*|valid\w*|infer\w*|generat\w*|sampl\w*"
        r"|tokenizer|optimi[sz]er|loss|vae|vision\w*|embedding\w*|lm[_ ]head|target\w*|teacher|server)",
        advice="Compilation was off in this run: turn it on and run again, without it the failure cannot show.",
    ),
    rule(
        "compile_disabled",
        r"(?<![\w.-])(?:(?:torch|use|enable|do|with)_?)?compile(?:_(?:model|drafter|attention|flex\w*))?['\"]?\s*[:=]\s*['\"]?(?:false|none|null|no|off|disabled)\b"
        r"|(?<![\w-])--(?:force[-_])?eager(?![\w=-])|\bcompile\w*\W{1,4}['\"]?disable['\"]?\s?[:=]\s?true\b"
        r"|(?<![\w-])--(?:no|disable)[-_](?:torch[-_])?compile\b|(?<![\w-])--(?:torch[-_]|use[-_])?compile[ =](?:false|no|off|none|0)\b"
        r"|(?<![\w.-])(?:(?:(?:torch[._])?compile|dynamo|inductor)[_ ])?backend['\"]?\s*[:=]\s*['\"]?(?:aot_)?eager\b"
        r"|\benforce[-_]eager['\"]?\s*[:=]\s*true\b",
        "compile|backend|enforce_eager|enforce-eager|--eager|--force",
        source="argparse.Namespace, the configuration that a training script prints first",
        example="args: Namespace(compile=False, backend='eager', threads=3)",
        role=Role.NOTICE,
        detail="said_disabled",
        advice="Its configuration says that compilation was off: turn it on, or, where the code compiles by itself, let it "
        "print how many compilations it made.",
    ),
    rule(
        "nothing_compiled",
        r"\b(?:compile[sd]?|compile events|compiled (?:graphs|functions|frames)|graphs compiled|num_compiles)\b"
        r"['\"]?\s*[:=]?\s*\b0\b(?![.\d/%])|\b(?:0|no|zero) (?:compile events|compiled (?:graphs|frames)"
        r"|graphs compiled)\b|unique_graphs['\"]?\s*[:=]\s*0\b|dynamo counters\W{1,3}\{\}|['\"]frames['\"]\s*:\s*(?:Counter\()?\{['\"](?:total|ok)['\"]\s*:\s*0\b|nothing (?:was|has been) compiled|found no compiled frames",
        "compile|unique_graphs|dynamo counters|frames",
        source="pytorch/pytorch#94636",
        example="threads=2 compile events: 0",
        role=Role.NOTICE,
    ),
    rule(
        "nothing_compiled",
        r"\b(?:fall(?:ing|s)|fell|fallback) ?(?:back )?to (?:the )?(?:eager|uncompiled)\b(?! ?(?:flex_?)?attention)"
        r"|\brunning (?:\w+ )?eagerly\b|\bskipping (?:torch\.compile|compilation)\b|\btorch\.compile (?:is )?(?:not available|unavailable)\b"
        r"|\bcompil\w+\b.{0,80}\bfailed\b.{0,120}\b(?:running|continuing|using|going on)\b.{0,12}\b(?:eager|uncompiled)\b",
        "eager|uncompiled|skipping|available",
        source="pytorch/pytorch#94636, training scripts that catch what torch.compile raises",
        example="WARNING torch.compile failed (RuntimeError: triton not found), falling back to eager",
        role=Role.NOTICE,
        detail="fell_back",
        unless=r"suppress (?:this|the)|by setting|\b(?:if|when|would|could|may|might|can)\b.{0,60}\b(?:fall|fell)|\b(?:not|never|no|without) (?:\w+ )?(?:fall|fell)"
        r"|\b(?:for|in|during) (?:the )?(?:eval\w*|valid\w*|tokenizer|optimi[sz]er|loss|vae|vision|embedding\w*|lm[_ ]head|target|teacher)\b",
        advice="What was to be compiled ran eager: mend what the compiler said before it, and run again.",
    ),
    rule(
        "compile_error",
        r"torch\._(?:dynamo|inductor|functorch)\.\w+(?:\.\w+)*\.?\w*(?:Error|Exception|Unsupported|Failed|Break)\b"
        r"|\b(?:BackendCompilerFailed|InductorError|LoweringException|InternalTorchDynamoError|TorchRuntimeError"
        r"|CppCompileError|CppWrapperCodegenError|NoValidChoicesError|InvalidCxxCompiler"
        r"|UncapturedHigherOrderOpError|ConstraintViolationError|GuardOnDataDependentSymNode|CompilationError)\b",
        "torch._dynamo.|torch._inductor.|torch._functorch.|backendcompilerfailed|inductorerror|loweringexception"
        "|torchdynamoerror|torchruntimeerror|cppcompileerror|cppwrapper|novalidchoices|invalidcxx"
        "|uncaptured|constraintviolation|guardondata|compilationerror",
        source="torch/_dynamo/exc.py, torch/_inductor/exc.py",
        example="torch._inductor.exc.InductorError: IndexError: tuple index out of range",
        role=Role.WRAPPER,
        unless=r"^\s*File |^\s*raise |suppress_errors|Ignoring this choice|graph_breaks|Graph break",
    ),
    rule(
        "compile_error",
        r"Failed to find C compiler|Please specify via CC environment|Python\.h: No such file",
        "c compiler|specify via cc|python.h",
        source="triton/runtime/build.py",
        example="RuntimeError: Failed to find C compiler. Please specify via CC environment variable.",
        role=Role.WRAPPER,
        detail="no_c_compiler",
        advice="Install a C compiler (gcc) and the headers of Python on the node or in the image, or name one in CC: without them "
        "nothing is compiled.",
    ),
    rule(
        "compile_error",
        r"triton\.compiler\.errors\.\w+|PassManager::run failed|LLVM ERROR"
        r"|PTXASError|ptxas (?:error|fatal)|`ptxas` failed|Internal Triton PTX codegen error",
        "triton.compiler.errors|passmanager|llvm error|ptxas|ptx codegen",
        source="triton/compiler/errors.py",
        example="RuntimeError: Internal Triton PTX codegen error",
        role=Role.WRAPPER,
        unless=r"is not defined for option|too much shared|Ignoring this choice",
    ),
    rule(
        "compile_error",
        r"(?:torch\.compile|Dynamo)\b.{0,20} (?:is |are )?not (?:yet )?supported (?:on|for|with) (?:Python|Windows)|Python 3\.\d+\+ not yet supported",
        "supported",
        source="torch/__init__.py",
        example="RuntimeError: torch.compile is not supported on Python 3.15+",
        detail="unsupported",
        advice="torch.compile does not know this Python or platform: build the environment with an older Python.",
    ),
    rule(
        "compile_error",
        r"aot_export is not currently supported|Mixing fake modes|fake mode .{0,80}doesn't match mode"
        r"|NYI: (?:unimplemented|querying)|FlexAttention.{0,60}(?:NYI|not (?:yet )?(?:supported|implemented))"
        r"|Unsupported for now if query, key, value are the same buffer|NYI: (?:embedding|head)",
        "aot_export|fake mode|nyi|flexattention|same buffer",
        source="torch/_inductor/kernel/flex",
        example="ValueError: NYI: embedding dimension of the query, key, and value must be a power of 2",
    ),
)
