"""Runs under way at the same time: started by name, taken as they end, each can be left."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from .launch import Stop

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


@dataclass(slots=True)
class Pool(Generic[T]):
    """One thread a run; the owner starts, takes and leaves from one thread of its own."""

    _runs: dict[str, tuple[threading.Thread, Stop]] = field(default_factory=dict)
    _ended: queue.SimpleQueue[tuple[str, T | BaseException]] = field(default_factory=queue.SimpleQueue)

    def start(self, name: str, make: Callable[[Stop], T]) -> None:
        """Begin; `make` gets what tells it to stop."""
        stop = Stop()

        def body() -> None:
            try:
                self._ended.put((name, make(stop)))
            except BaseException as error:  # noqa: BLE001  (raised again where the result is taken)
                self._ended.put((name, error))

        thread = threading.Thread(target=body, name=name, daemon=True)
        self._runs[name] = (thread, stop)
        thread.start()

    @property
    def num_runs(self) -> int:
        """Runs started and neither taken nor left."""
        return len(self._runs)

    @property
    def has_ended(self) -> bool:
        """Whether `take` would not wait."""
        return not self._ended.empty()

    def take(self) -> T:
        """The next result; raises what its run raised. Results of runs that were left are passed over."""
        while True:
            name, result = self._ended.get()
            if self._runs.pop(name, None) is None:
                continue
            if isinstance(result, BaseException):
                raise result
            return result

    def leave(self, name: str) -> None:
        """Stop a run for good, and wait until it is: its result will not be taken."""
        thread, stop = self._runs.pop(name, (None, None))
        if thread is not None and stop is not None:
            stop.set(for_good=True)
            thread.join()

    def close(self, *, for_good: bool = False) -> None:
        """Stop everything; what goes on elsewhere is left alone unless it is `for_good`."""
        for _, stop in self._runs.values():
            stop.set(for_good=for_good)
        for thread, _ in self._runs.values():
            thread.join()
        self._runs.clear()
