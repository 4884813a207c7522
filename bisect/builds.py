"""The environments of a search's candidates: made once, kept in a bounded number, evidence of each beside the runs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from envs import edited
from envs.build import Built, build
from envs.errors import CannotBuildError, CannotRunError, ToolError
from envs.outlook import is_built
from envs.resolve import lock_for, renew
from envs.store import Store

from .changed import Changed, ChangedError
from .files import write_atomically
from .model import OutcomeName
from .state import BuildFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from envs.index import File
    from envs.settings import Settings
    from envs.spec import Definition

WHOLE_MACHINE = {"disk_full", "no_gpu", "harness_error(engine)", "harness_error(engine_gone)"}
"""Refusals that are not the candidate's: no other candidate would fare better."""
NEIGHBOURS_ASKED = 4
FACTS = ("torch", "cuda", "git_version", "triton", "cudnn", "nccl", "driver", "python", "glibc", "gpus")


def changed_before(built: Built, store: Path, say: Callable[[str], None]) -> Changed | None:
    """What was changed in an environment that was there already, told as a warning: nothing has run in it yet."""
    line = edited.of(built)
    if not line:
        return None
    say(f"warning: {built.name} was changed after it was built: {line}")
    return _changed(built.name, built.digest, line, store)


def changed_since(name: str, digest: str, store: Path) -> Changed | None:
    """What is changed now in an environment of the store, whoever built it."""
    path = Store(store).directory(digest)
    line = edited.told(path) if (path / "venv").exists() else ""
    return _changed(name, digest, line, store) if line else None


def refuse_changed(built: Built, store: Path) -> None:
    """ChangedError for an environment that was there already and is not as it was built."""
    if line := edited.of(built):
        raise ChangedError(_changed(built.name, built.digest, line, store))


def _changed(name: str, digest: str, line: str, store: Path) -> Changed:
    return Changed(environment=name, what=line, rebuild=edited.rebuild_command(digest, store))


@dataclass(slots=True, kw_only=True)
class Builder:
    """Builds candidates.

    Attributes:
        names: every candidate, oldest first.
        define: the definition of a candidate's environment.
        settings: where environments come from and go.
        directory: the run directory of the search.
        say: told lines for a person.
        keep: environments of this search that stay on disk, the least recently used go first.
        commit_is_identity: whether two builds of torch from one commit are one candidate.
        needs_compiler: whether the run calls a C++ compiler, so that its absence is told before a download.
        import_is_the_question: whether a torch that cannot be imported may be the failure that is hunted.
        served: what the index lists now of the files that the search exchanges; nothing where it was not asked.
        in_use: candidates whose runs are under way, which stay on disk.
    """

    names: tuple[str, ...]
    define: Callable[[str], Definition]
    settings: Settings
    directory: Path
    say: Callable[[str], None]
    keep: int = 6
    commit_is_identity: bool = True
    needs_compiler: bool = False
    import_is_the_question: bool = False
    served: Callable[[], Sequence[File]] = tuple
    in_use: Callable[[], frozenset[str]] = frozenset
    _made: dict[str, str] = field(default_factory=dict)
    _took_s: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """A search that goes on still keeps count of what it built before it was stopped."""
        kept = sorted((self.directory / "environments").glob("*.json"), key=lambda path: path.stat().st_mtime)
        for path in kept:
            facts = json.loads(path.read_text(encoding="utf-8"))
            if facts["made_here"]:
                self._made[path.stem] = facts["digest"]

    def facts(self, candidate: str) -> BuildFacts:
        """Make the candidate's environment and ask it what it is."""
        try:
            self._renew(candidate)
            built = self.built(candidate)
            if line := edited.of(built):
                built = self._built_again(candidate, built, line)
        except (CannotBuildError, CannotRunError) as error:
            if error.outcome in WHOLE_MACHINE or isinstance(error, ChangedError):
                raise
            return self._refused(candidate, error)
        self._keep_evidence(candidate, built)
        found = built.fingerprint
        facts = {name: getattr(found, name) for name in FACTS}
        facts["code"] = found.git_version if self.commit_is_identity else ""
        broken = found.torch_error and not self.import_is_the_question
        return BuildFacts(
            candidate=candidate,
            seconds=self._took_s.pop(candidate, 0.0),
            outcome=OutcomeName.IMPORT_BROKEN.value if broken else "",
            reason=f"torch cannot be imported: {found.torch_error}" if broken else "",
            facts=facts,
        )

    def edited(self, candidate: str) -> str:
        """What runs changed in the candidate's environment, which was as it was built before them; '' for nothing."""
        kept = self.directory / "environments" / f"{candidate}.json"
        if not kept.exists():
            return ""
        path = Store(self.settings.store).directory(json.loads(kept.read_text(encoding="utf-8"))["digest"])
        return edited.told(path) if (path / "venv").exists() else ""

    def resolved(self, candidate: str) -> BuildFacts:
        """Lock the candidate without building it, for nodes that build what they run: what it is, nobody knows yet."""
        try:
            self._renew(candidate)
            lock_for(self.define(candidate), self.settings)
        except (CannotBuildError, CannotRunError) as error:
            return self._refused(candidate, error)
        return BuildFacts(candidate=candidate)

    def _renew(self, candidate: str) -> None:
        """A lock in the store may be of a file that the index has replaced since: then the store's build is too."""
        if why := renew(self.define(candidate), self.settings, self.served()):
            self.say(f"{candidate} is resolved anew: {why}")

    def built(self, candidate: str) -> Built:
        """The candidate's environment, made when it is not there (any more)."""
        definition = self.define(candidate)
        if not is_built(definition, self.settings):
            while len(self._made) >= self.keep and self._remove_oldest(f"{self.keep} are kept"):
                pass
        built = self._build_in_what_is_free(definition)
        if not built.cached or candidate in self._made:
            self._made.pop(candidate, None)
            self._made[candidate] = built.digest
        if not built.cached:
            self._took_s[candidate] = built.seconds
            self._keep_evidence(candidate, built)
        return built

    def _built_again(self, candidate: str, built: Built, line: str) -> Built:
        """What this search built and its runs changed is made anew; what was there before is somebody's own."""
        store = Store(self.settings.store)
        if built.digest not in self._made.values() or not store.remove(built.digest):
            raise ChangedError(_changed(built.name, built.digest, line, store.root))
        self.say(f"building {candidate} anew, for it was changed after it was built: {line}")
        return self.built(candidate)

    def _build_in_what_is_free(self, definition: Definition) -> Built:
        """Build; a disk too full for it loses this search's own environments first."""
        while True:
            try:
                return build(definition, self.settings, report=self.say, require_compiler=self.needs_compiler)
            except CannotRunError as error:
                if error.outcome != "disk_full" or not self._remove_oldest("the disk is full"):
                    raise

    def _remove_oldest(self, why: str) -> bool:
        """Remove the least recently used idle environment that this search made, if any; what was there stays."""
        idle = [name for name in self._made if name not in self.in_use()]
        if not idle:
            return False
        digest = self._made.pop(idle[0])
        if digest not in self._made.values():
            self.say(f"removing the environment of {idle[0]}: {why}")
            Store(self.settings.store).remove(digest)
        return True

    def _keep_evidence(self, candidate: str, built: Built) -> None:
        """The lock and the definition stay when the environment is pruned, for the report and to reproduce it."""
        folder = self.directory / "environments"
        folder.mkdir(exist_ok=True)
        for lock in built.path.glob("pylock.toml"):
            write_atomically(folder / f"{candidate}.lock.toml", lock.read_text(encoding="utf-8"))
        facts = {
            "digest": built.digest,
            "made_here": candidate in self._made,
            "distributions": built.fingerprint.distributions,
        }
        write_atomically(folder / f"{candidate}.json", json.dumps(facts, indent=1))

    def _refused(self, candidate: str, error: ToolError) -> BuildFacts:
        return BuildFacts(
            candidate=candidate,
            outcome=error.outcome,
            reason=error.message,
            hint=self._nearest_installable(candidate, error),
        )

    def _nearest_installable(self, candidate: str, error: ToolError) -> str:
        """For an endpoint: the nearest candidate that at least resolves, or that all neighbours fail alike."""
        if candidate not in (self.names[0], self.names[-1]):
            return error.hint
        others = self.names[1:] if candidate == self.names[0] else self.names[-2::-1]
        reasons = set()
        for other in others[:NEIGHBOURS_ASKED]:
            try:
                lock_for(self.define(other), self.settings)
            except ToolError as failure:
                reasons.add(failure.message.replace(other, candidate))
                continue
            return f"the nearest that resolves is {other}" + (f"; {error.hint}" if error.hint else "")
        alike = "its neighbours fail the same way, so no candidate can be built: " if reasons else ""
        return f"{alike}{error.hint}" or "give another endpoint"
