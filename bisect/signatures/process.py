"""How processes end and hang, what the numbers say, and mistakes of the harness itself."""

from __future__ import annotations

from ..model import Conclusion
from .advice import ENDED_FROM_OUTSIDE
from .rule import Role, rule

HANGS = (
    rule(
        "harness_error",
        r"address already in use|EADDRINUSE|RendezvousConnectionError|RendezvousTimeoutError"
        r"|(?:TCPStore|c10d|rendezvous|MASTER_ADDR|client socket).{0,120}(?:refused|timed out|failed to connect|has failed)",
        "already in use|eaddrinuse|rendezvous|tcpstore|c10d|master_addr|client socket",
        source="torch/distributed",
        example="RuntimeError: The server socket has failed to listen on any local network address: Address already in use",
        detail="rendezvous",
        conclusion=Conclusion.RETRY,
    ),
    rule(
        "hang(nccl_watchdog)",
        r"Watchdog caught collective operation timeout|watchdog (?:thread )?got stuck|HeartbeatMonitor|heartbeat monitor timed out"
        r"|collective (?:operation )?time(?:d )?out|NCCL.{0,40}\btimed out\b|NCCL time-?out(?! ?(?:[:=(]|set|is|of|value|seconds))|Some NCCL operations have failed or timed out"
        r"|Timed out waiting \d+ ?ms for (?:recv|send)|monitoredBarrier|watchdog timeout!",
        "watchdog|heartbeatmonitor|heartbeat monitor|collective|nccl|timed out waiting|monitoredbarrier",
        source="pytorch/pytorch#97191, #118369; snowflakedb/ArcticTraining#219",
        example="[E ProcessGroupNCCL.cpp:632] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=71)",
        role=Role.SYMPTOM,
        unless=r"timeout(?:[ _](?:is )?set|[ _]?s(?:ec)?\b|[ _]ms)\s*(?:to|[:=])|TIMEOUT=|HEARTBEAT_TIMEOUT_SEC\b(?!\))",
    ),
    rule(
        "hang(deadlock)",
        r"\bdeadlock(?:ed)?\b (?:detected|avoided|between)|(?:potential|possible|detected|suspected) (?:a )?deadlock|resource deadlock"
        r"|waiting for (?:the )?GIL|_DeadlockError|deadlock detected",
        "deadlock|waiting for the gil|waiting for gil",
        source="pytorch/pytorch#109074, CPython importlib._bootstrap",
        example="py-spy: 3 threads waiting for the GIL, possible deadlock",
        role=Role.SYMPTOM,
    ),
    rule(
        "hang(deadline)",
        r"DUE TO TIME LIMIT|^\s*State\s*: TIMEOUT\b|=>> PBS: job killed: walltime|TERM_RUNLIMIT|reaching LSF run ?time limit"
        r"|exceeded (?:its |the )?(?:hard |soft )?(?:wall ?(?:clock )?time|time limit|walltime)|longer than specified deadline"
        r"|(?:job|run|allocation|time|walltime|wall[- ]clock) (?:time )?limit (?:was |has been )?(?:exceeded|reached|expired)"
        r"|walltime (?:\d+ )?(?:exceeded|reached|expired)",
        "time limit|timeout|walltime|wall time|wall clock time|runlimit|lsf run|specified deadline|limit ",
        source="Slurm, PBS, LSF, Kubernetes",
        example="slurmstepd: error: *** JOB 77 ON node01 CANCELLED AT 2026-10-01T10:00:00 DUE TO TIME LIMIT ***",
        role=Role.SYMPTOM,
        detail="time_limit",
        unless=r"retry",
    ),
    rule(
        "hang(deadline)",
        r"^Timeout \(\d+:\d\d:\d\d(?:\.\d+)?\)!|no (?:heartbeat|progress|output) (?:for|in|since) [\d.]+ ?(?:s|sec|seconds|min|minutes|h)?"
        r"|heartbeat (?:lost|stopped|missed|deadline|timeout)|(?:hang|hung|stuck|stall(?:ed)?) (?:detected|task)"
        r"|killed (?:after|by) (?:the )?(?:timeout|deadline)|deadline (?:exceeded|reached|expired)"
        r"|subprocess\.TimeoutExpired|timed out after [\d.]+|wait timeout after \d+ ?ms|DistStoreError|Socket Timeout|blocked for more than \d+ seconds|Signals\.SIGALRM",
        "timeout (|no heartbeat|no progress|no output|heartbeat|detected|hung|killed|deadline"
        "|timeoutexpired|wait timeout|diststoreerror|socket timeout|timed out after|blocked for more|sigalrm",
        source="faulthandler, Slurm, coreutils timeout, subprocess",
        example="Timeout (0:10:00)!",
        role=Role.SYMPTOM,
        unless=r"https?://|ReadTimeout|HTTPSConnectionPool|pip\b|heartbeat[ _](?:timeout|deadline)[\w ]*[:=(]|retry",
    ),
)

ENDINGS = (
    rule(
        "segfault",
        r"segmentation fault|\bSIGSEGV\b|segfault at|Fatal Python error: Segmentation|exit ?code\s*:?\s*-11\b|\bsignal:? 11\b",
        "segmentation fault|sigsegv|segfault at|-11|signal 11|signal: 11",
        source="bash, faulthandler, torchrun",
        example="Fatal Python error: Segmentation fault",
        role=Role.ENDING,
    ),
    rule(
        "abort",
        r"Fatal Python error(?!: Bus error)|\bAborted\b(?: \(core dumped\))?$|\bSIGABRT\b|terminate called (?:after|without|recursively)"
        r"|double free or corruption|free\(\): invalid|corrupted (?:size|double-linked|unsorted)|malloc\(\): |munmap_chunk\(\)"
        r"|pure virtual method called|exit ?code\s*:?\s*-6\b|\bsignal:? 6\b|stack smashing detected|: Assertion [`'].*failed\.$"
        r"|floating point exception|\bSIGFPE\b|Aborted \(core",
        "fatal python error|aborted|sigabrt|terminate called|free|corrupted|malloc()|munmap_chunk|virtual method|-6"
        "|signal 6|signal: 6|smashing|assertion|floating point exception|sigfpe",
        source="glibc, bash, libstdc++",
        example="terminate called after throwing an instance of 'c10::Error'",
        role=Role.ENDING,
        unless=r"(?:Transaction|Upload|request|Download|\b0|\bno|\bnone|\bnot|\bnever) aborted",
    ),
    rule(
        "harness_error",
        r"insufficient shared memory|out of shared memory|raise your shared memory|Unexpected bus error encountered in worker|unable to (?:open|allocate|write to) (?:shared memory|file </torch_)"
        r"|shm_open|creating shared memory segment|No space left on device: ['\"]/dev/shm|/dev/shm.{0,60}(?:No space|full|too small|exceeded)|unable to mmap \d+ bytes",
        "shared memory|bus error encountered|shm_open|/dev/shm|unable to mmap|unable to open",
        source="pytorch/pytorch#5040, open-mmlab/mmdetection#1997",
        example="ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
        detail="shared_memory",
        advice="Give the container more shared memory (ENVS_SHM_SIZE=8G; docker: --shm-size=8g or --ipc=host) and run again.",
        conclusion=Conclusion.RETRY,
    ),
    rule(
        "segfault",
        r"\bbus error\b|\bSIGBUS\b",
        "bus error|sigbus",
        source="bash",
        example="Bus error (core dumped)",
        role=Role.ENDING,
        detail="bus_error",
        advice="Look whether /dev/shm or the disk was full (df); if not, it is a crash: repeat with PYTHONFAULTHANDLER=1 "
        "and keep the stacks.",
    ),
    rule(
        "harness_error",
        r"\*\*\* STEP \S+ ON \S+ CANCELLED AT \S+ \*\*\*",
        "cancelled at",
        source="Slurm",
        example="slurmstepd: error: *** STEP 77.0 ON node01 CANCELLED AT 2026-10-01T10:00:00 ***",
        role=Role.ENDING,
        detail="step_cancelled",
        advice="The step was cancelled, by hand or because one of its tasks failed: look for what that task said, and run again.",
        conclusion=Conclusion.RETRY,
    ),
    rule(
        "harness_error",
        r"preempt(?:ed|ion)|\bPREEMPTED\b|lost connection to|Connection (?:to \S+ )?closed by remote host|node .{0,30}(?:went away|drained)"
        r"|spot instance|requeue|\*\*\* (?:JOB|STEP) \S+ ON \S+ CANCELLED AT",
        "preempt|lost connection|closed by remote|went away|drained|spot instance|requeue|cancelled at",
        source="google/syzkaller#4888, Slurm",
        example="slurmstepd: error: *** JOB 77 ON node01 CANCELLED AT 2026-10-01T10:00:00 DUE TO PREEMPTION ***",
        detail="lost_machine",
        advice="The machine went away; run again.",
        conclusion=Conclusion.RETRY,
        unless=r"preemption (?:mode|enabled|disabled)|requeue\s*[:=]",
    ),
    rule(
        "out_of_memory(host)",
        r"^Killed$|\d+ Killed\b",
        "killed",
        source="bash",
        example="Killed",
        role=Role.ENDING,
        detail="killed",
        advice=ENDED_FROM_OUTSIDE,
        conclusion=Conclusion.RETRY,
    ),
    rule(
        "out_of_memory(host)",
        r"(?:exit|return) ?code\s*[:=]?\s*-9\b|\bSIGKILL\b|\bsignal:? 9\b|\btasks? [\d,-]+: Killed$",
        "-9|sigkill|signal 9|signal: 9|killed",
        source="torchrun, srun, mpirun, deepspeed",
        example="exitcode  : -9 (pid: 4242)",
        role=Role.ENDING,
        detail="killed",
        advice=ENDED_FROM_OUTSIDE,
        conclusion=Conclusion.RETRY,
        unless=r"Unable to shutdown|forceful\w*|\b(?:send(?:ing|s)?|escalat\w+|using|via)\b.{0,30}\bSIGKILL",
    ),
    rule(
        "hang(deadline)",
        r"got signal: 15\b|Received (?:Signals\.)?SIGTERM death signal|exit ?code\s*:?\s*-15\b|\bSignal 15 \(SIGTERM\) received",
        "signal: 15|death signal|-15|signal 15",
        source="torch/distributed/elastic",
        example="torch.distributed.elastic.multiprocessing.api.SignalException: Process 77 got signal: 15",
        role=Role.ENDING,
        detail="terminated",
        advice=ENDED_FROM_OUTSIDE,
        conclusion=Conclusion.RETRY,
    ),
    rule(
        "hang(deadline)",
        r"^(?:\w+\.)*TimeoutError\b(?!.*(?:Errno 110|onnection))",
        "timeouterror",
        source="CPython",
        example="TimeoutError: no answer of the data server",
        role=Role.ENDING,
    ),
    rule(
        "harness_error",
        r"Cannot re-initialize CUDA in forked subprocess",
        "re-initialize cuda",
        source="torch/cuda/__init__.py",
        example="RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, use spawn",
        detail="fork",
        advice="Start worker processes with the spawn method.",
    ),
    rule(
        "harness_error",
        r"^KeyboardInterrupt|\bSIGINT\b.{0,30}(?:received|closing)|^\^C$",
        "keyboardinterrupt|sigint|^c",
        source="CPython",
        example="KeyboardInterrupt",
        role=Role.ENDING,
        detail="interrupted",
        conclusion=Conclusion.RETRY,
    ),
)

NUMBERS = (
    rule(
        "nan_loss",
        r"loss (?:is|became|was|went|turned) (?:a )?(?:nan|inf|non-finite|not finite)|non-?finite (?:training |train )?loss"
        r"|nan (?:loss|detected in (?:the )?loss)\b|returned nan values in its|(?:nan|inf) (?:or inf )?(?:detected|found|encountered) in (?:the )?(?:loss|gradients?)"
        r"|loss (?:has )?diverged to (?:nan|inf)",
        "nan|inf|non-finite|nonfinite|not finite",
        source="pytorch/pytorch#136232, #186775; torch.autograd anomaly mode",
        example="Loss is nan, stopping training",
        role=Role.NOTICE,
        unless=r"(?:nan_loss|check|skip|detect)\w*\s*[=:]\s*(?:true|false|on|off|0|1)",
    ),
    rule(
        "numeric_mismatch",
        r"Tensor-likes are not (?:close|equal)|Mismatched elements: [1-9]|(?:accuracy|AccuracyError|Bad accuracy detected)\b.{0,20}(?:fail|mismatch|detected)"
        r"|(?:loss(?:es)?|outputs?|gradients?|logits|results?)\b.{0,60}\b(?:differs?|mismatch(?:es)?|diverges?d?|deviates?)\b"
        r".{0,40}\b(?:control|reference|baseline|eager|expected|1-thread|single[- ]thread)"
        r"|(?:numeric|numerical|loss|correctness) mismatch|correctness check.{0,40}MISMATCH",
        "not close|not equal|mismatch|accuracy|differ|diverge|deviate",
        source="pytorch/pytorch#187589, torch.testing",
        example="loss of thread 2 differs from the 1-thread control: 5.91 against 5.32",
        unless=r"hash|sha256|version mismatch|within (?:the )?tolerance|\b0 (?:of|mismatch)",
    ),
)

DEATHS = (
    rule(
        "unknown",
        r"\b(?:drafter|worker|thread|replica|rank|trainer|actor|child|subprocess|process)s?\b.{0,60}\b(?:died|crashed|is dead|not alive|no longer (?:alive|running|responding)|was lost|gave up"
        r"|(?:terminated|exited|stopped|ended|quit) (?:unexpectedly|abnormally|prematurely|with (?:an? )?(?:error|exception|(?:exit )?(?:code|status) -?[1-9])))"
        r"|\b(?:drafter|worker|thread|replica|rank|trainer|actor)(?:[-_ #:]?\d+)? (?:has )?failed\b(?! to )"
        r"|\b(?:ERROR|CRITICAL|FATAL)\b.{0,60}\b(?:drafter|worker|thread|replica|rank|trainer|actor)\b.{0,40}\b(?:stopped|lost|gone|ended|quit|killed|aborted)\b"
        r"|\b(?:continuing|going on|carrying on) (?:with (?:only )?\d+|without) (?:\w+ )?(?:drafter|worker|thread|replica|rank|trainer|actor)"
        r"|\b(?:lost|dead) (?:drafter|worker|thread|replica|actor)(?:[-_ #:]?\d+)?\b|^Exception in thread \S|\b(?:ERROR|CRITICAL|FATAL)\b.{0,40}\b(?:drafter|worker|thread|replica)[-_ #]?\d+\W{1,3}(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception)\b",
        "died|crashed|is dead|not alive|no longer|continuing|going on|carrying on|was lost|gave up|unexpectedly|abnormally|prematurely|exited|stopped|ended|quit|terminated|failed"
        "|lost|gone|killed|aborted|dead |exception in thread|error",
        source="dflash/threads.py, CPython threading, torch/utils/data",
        example="ERROR: drafter-2 stopped: worker died",
        role=Role.GENERIC,
        detail="worker_died",
        advice="A worker died, and the log does not say of what: give its traceback, its own log, or the result file.",
        unless=r"\b(?:if|when|whether|unless|in case|may|might|could|would|should)\b.{0,60}\b(?:die[sd]?|crash|fail)|\b(?:no|zero|0) (?:\w+ )?(?:drafter|worker|thread|replica|rank"
        r"|trainer|actor|child|process)|(?:died|crashed|failed|lost|dead|killed)['\"]?\s*[:=]\s*(?:0|no|none|false|\[\])|\bdataloader\b"
        r"|\b(?:retry\w*|test|http|download|upload|request|wandb|tensorboard|logg(?:er|ing)|profiler|metrics|prefetch|monitor)\w*\b",
    ),
)
