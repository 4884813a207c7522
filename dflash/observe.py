"""What torch did meanwhile: compilations, recompilations with reasons, limits, dense calls, warnings.

An `Observer` is written to by all threads under `_lock`, which is never held while torch runs.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import compat

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT_LINE = re.compile(r"hit config\.(\w+) \((\d+)\)")
"""Dynamo's only sign, a warning, that it gave up compiling a function and runs it eagerly from now on."""
RECOMPILED = re.compile(r"Recompiling function (\w+)")
REASON = re.compile(r"- \d+/\d+: (.*)")
TELLING = re.compile(r"size mismatch|stride mismatch|dtype mismatch|device mismatch|cell_contents")
OBJECT_ID = re.compile(r"\b\d{9,}\b")
MAX_TEXT = 300
MAX_KINDS = 60


class Observer:
    """Counts and reasons of one process. `here()` names the calling thread and its step."""

    def __init__(self, here: Callable[[], tuple[str, int]]) -> None:
        self._here = here
        self._lock = threading.Lock()
        self.compiles = 0
        self.backend_s = 0.0
        self.compiles_by_thread: Counter[str] = Counter()
        self.dense_calls = 0
        self.dense_first: dict[str, object] | None = None
        self.limit_hits: list[dict[str, object]] = []
        self._recompiles: Counter[tuple[str, str, str]] = Counter()
        self._warnings: Counter[tuple[str, str]] = Counter()

    def install(self) -> None:
        """Listen to torch's loggers and to the warnings of the whole process, once, in the main thread."""
        listener = _Listener(self)
        compat.log_recompiles(listener)
        logging.getLogger("torch._dynamo.convert_frame").addHandler(listener)
        show = warnings.showwarning

        def showwarning(message: Any, category: Any, filename: str, lineno: int, *rest: Any) -> None:
            self.note_warning(str(message))
            show(message, category, filename, lineno, *rest)

        warnings.showwarning = showwarning

    def count_compiles(self, backend: Callable[..., Any]) -> Callable[..., Any]:
        """The same compile backend, counted and timed; it runs in the thread that compiles."""

        def counted(graph: Any, inputs: Any) -> Any:
            started = time.monotonic()
            try:
                return backend(graph, inputs)
            finally:
                with self._lock:
                    self.compiles += 1
                    self.backend_s += time.monotonic() - started
                    self.compiles_by_thread[self._here()[0]] += 1

        return counted

    def note_dense(self, score_bytes: int) -> None:
        """A flex attention call ran unfused, with a score matrix of this many bytes."""
        thread, step = self._here()
        with self._lock:
            self.dense_calls += 1
            if self.dense_first is None:
                self.dense_first = {"thread": thread, "step": step, "score_bytes": score_bytes}

    def note_warning(self, text: str) -> None:
        """A warning was shown."""
        with self._lock:
            if len(self._warnings) < MAX_KINDS:
                self._warnings[text.strip()[:MAX_TEXT], self._here()[0]] += 1

    def note_log(self, text: str) -> None:
        """Dynamo logged a line: a recompilation, or a limit reached."""
        thread, step = self._here()
        limit, recompiled = LIMIT_LINE.search(text), RECOMPILED.search(text)
        with self._lock:
            if limit:
                self.limit_hits.append({"thread": thread, "limit": int(limit[2]), "step": step, "kind": limit[1]})
            elif recompiled:
                self._recompiles[recompiled[1], recompile_reason(text), thread] += 1

    def compile_s(self) -> float:
        """Seconds of compiling, Dynamo's own record or the backend's time where that is longer."""
        return max(self.backend_s, compat.compile_seconds())

    def snapshot(self) -> dict[str, Any]:
        """All counts as the result file spells them."""
        counters = compat.counters()
        with self._lock:
            return {
                "compiles": self.compiles,
                "compiles_by_thread": dict(self.compiles_by_thread),
                "recompiles": sum(self._recompiles.values()),
                "recompile_reasons": [
                    {"function": function, "reason": reason, "count": count, "thread": thread}
                    for (function, reason, thread), count in self._recompiles.most_common(MAX_KINDS)
                ],
                "recompile_limit_hits": list(self.limit_hits),
                "dense_calls": self.dense_calls,
                "dense_first": self.dense_first,
                "graph_breaks": sum(counters["graph_break"].values()),
                "warnings": [
                    {"text": text, "count": count, "thread": thread}
                    for (text, thread), count in self._warnings.most_common(MAX_KINDS)
                ],
                "fx_flag_end": compat.fx_flag(),
            }


def recompile_reason(text: str) -> str:
    """The most telling of the reasons Dynamo lists, one per cache entry that did not fit.

    Entries of another mask kind or gradient mode never fit; a size or a captured integer is what really changed.
    """
    reasons = [OBJECT_ID.sub("ID", line.split("  #")[0].strip()) for line in REASON.findall(text)]
    telling = [reason for reason in reasons if TELLING.search(reason)]
    return (telling or reasons or ["unknown"])[0][:MAX_TEXT]


class _Listener(logging.Handler):
    """Hands Dynamo's lines to the observer; never prints."""

    def __init__(self, observer: Observer) -> None:
        super().__init__(logging.DEBUG)
        self._observer = observer

    def emit(self, record: logging.LogRecord) -> None:
        self._observer.note_log(record.getMessage())


class CacheWatch:
    """Entries of the compile caches on disk before and after, and what torch says it found in them."""

    def __init__(self) -> None:
        self._folders = [
            Path(os.environ[name]) for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR") if os.environ.get(name)
        ]
        self._before = self._entries()

    def _entries(self) -> int:
        return sum(1 for folder in self._folders for path in folder.rglob("*") if path.is_file())

    def snapshot(self) -> dict[str, object]:
        graphs, autograd = compat.counters()["inductor"], compat.counters()["aot_autograd"]
        return {
            "mode": "warm" if self._before else "cold",
            "entries_before": self._before,
            "entries_after": self._entries(),
            "hits": graphs["fxgraph_cache_hit"],
            "misses": graphs["fxgraph_cache_miss"],
            "bypasses": graphs["fxgraph_cache_bypass"],
            "autograd_hits": autograd["autograd_cache_hit"],
            "autograd_misses": autograd["autograd_cache_miss"],
        }
