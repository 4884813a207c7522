"""The loop of the matrix with fake hands: what is run, what is kept, what a kill leaves, what is reused."""

from __future__ import annotations

import copy
import json
import threading
import time
from bisect.changed import Changed, ChangedError
from bisect.html import matrix_page
from bisect.journal import read
from bisect.matrix import Blocked, Cell, State, with_block
from bisect.matrix.axes import Axes, Budget, parse_budget, span
from bisect.matrix.cell import CellRuns
from bisect.matrix.key import CellKey
from bisect.matrix.plan import Prepared, Room
from bisect.matrix.report import Origin, make_report
from bisect.matrix.run import MatrixRun
from bisect.matrix.state import assess
from bisect.matrix.store import MatrixDirectory
from bisect.probe import RunKind, RunRecord
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from envs.errors import CannotBuildError, UsageError
from envs.spec import Definition

from . import matrix_cells
from .matrix_cells import OK, RACE

GOLDEN = Path(__file__).parent.parent / "golden"
TRAIN = json.loads((GOLDEN / "train.json").read_text(encoding="utf-8"))
HAZARDS = json.loads((GOLDEN / "hazards.json").read_text(encoding="utf-8"))
MESSAGE = TRAIN["threads"][1]["exceptions"][0]["message"]


@dataclass
class Built:
    name: str
    digest: str = "d"
    path: Path = Path("/store/env")
    python: Path = Path("/store/env/bin/python")


@dataclass
class FakeHands:
    """Writes the files a real run leaves; `truth(environment, workaround, number)` says what happens.

    `changed` are the environments that somebody edits while it runs.
    After `die_after` runs it behaves like a kill: an exception that nobody catches.
    """

    truth: object
    broken: frozenset = frozenset()
    changed: frozenset = frozenset()
    die_after: int = 10**9
    built: list = field(default_factory=list)
    runs: list = field(default_factory=list)
    controls: int = 0

    def build(self, definition):
        self.built.append(definition.name)
        if definition.name in self.broken:
            raise CannotBuildError("no wheel", hint="take another", outcome="not_published")
        return Built(name=definition.name)

    def refuse_changed(self, environment):
        if environment.name in self.changed:
            raise ChangedError(Changed(environment=environment.name, what="changed torch/a.py", rebuild="prune it"))

    def began(self, _directory):
        return False

    def run(self, environment, request, directory, _stop):
        directory.mkdir(parents=True)
        (directory / "record.json").write_text('{"variables": {}}')
        (directory / "log.txt").write_text("")
        if request.kind is RunKind.HAZARDS:
            (directory / "result.json").write_text(json.dumps(HAZARDS))
            return self._record(directory, 0)
        words = request.arguments
        workaround = words[words.index("--workaround") + 1]
        if "--threads" in words:
            self.controls += 1
            outcome = OK
        else:
            if len(self.runs) >= self.die_after:
                raise SystemExit("killed")
            outcome = self.truth(environment.name, workaround, len(self.runs))
            self.runs.append((environment.name, workaround))
        if request.cache is not None:
            (directory / "warm").write_text(str(request.cache))
        (directory / "caches").mkdir()
        (directory / "result.json").write_text(json.dumps(_result(outcome, rate=1.0 + 0.01 * len(self.runs))))
        return self._record(directory, 0 if outcome == OK else 1)

    def _record(self, directory, returncode):
        return RunRecord(
            directory=directory,
            returncode=returncode,
            timed_out=False,
            seconds=20.0,
            result_path=directory / "result.json",
            log_path=directory / "log.txt",
        )


def _result(outcome, *, rate):
    """The golden result as a clean run, or with its race."""
    result = copy.deepcopy(TRAIN)
    result["process"]["recompile_limit_hits"] = []
    result["process"]["warnings"] = []
    result["throughput"]["ktok_s"] = rate
    healthy = result["threads"][0]
    for thread in result["threads"][:2]:
        thread["step_times_s"] = [1.9, 0.3, 0.2] + [0.11] * 7
        if outcome == OK:
            thread |= {"steps": 10, "completed": True, "exceptions": [], "losses": healthy["losses"]}
    return result


AXES = Axes(builds=("cu128", "cu130"), workarounds=("none", "lock"), current="cu128", hazards=False)


def prepared(axes=AXES):
    rooms, cells = {}, []
    common = CellKey(build="", benchmark="b", node="n1", platform="p", profile="smoke")
    for key in span(axes, common):
        rooms[key.environment] = Room(
            definition=Definition(name=key.environment, summary="", torch="2.11.0", cuda="cu130"), lock="l"
        )
        cells.append(Cell(key=replace(key, lock=f"lock-{key.environment}")))
    return Prepared(cells=tuple(cells), rooms=rooms, points={})


def start(path, hands, *, axes=AXES, budget=None, session="s1", together=False):
    directory = MatrixDirectory(path)
    running = MatrixRun(
        axes=axes,
        prepared=prepared(axes),
        runs=CellRuns(
            axes=axes,
            prepared=prepared(axes),
            hands=hands,
            directory=directory,
            say=lambda _line: None,
            patience_s=300.0,
        ),
        directory=directory,
        budget=budget or Budget(),
        say=lambda _line: None,
        session=session,
        together=together,
    )
    try:
        running.run()
    finally:
        directory.close()
    return running


@dataclass
class SlowHands(FakeHands):
    """Runs that take a moment, and note which others were under way at the same time; one of a pair waits for it."""

    under_way: set = field(default_factory=set)
    overlaps: set = field(default_factory=set)
    lock: object = field(default_factory=threading.Lock)

    def run(self, environment, request, directory, stop):
        name = directory.name
        measured = "--threads" not in request.arguments
        with self.lock:
            self.overlaps |= {frozenset({name, other}) for other in self.under_way if measured}
            self.under_way |= {name} if measured else set()
        time.sleep(0.02)
        deadline = time.monotonic() + 30.0
        while measured and self._is_paired(directory) and time.monotonic() < deadline:
            with self.lock:
                if any(name in pair for pair in self.overlaps):
                    break
            time.sleep(0.001)
        with self.lock:
            self.under_way.discard(name)
            return super().run(environment, request, directory, stop)

    def _is_paired(self, directory):
        started = read(directory.parents[1] / "journal.jsonl").of("started")
        return any(entry["beside"] for entry in started if Path(entry["run"]).name == directory.name)


def runs_in(running):
    return [run for cell in running.cells for run in cell.runs]


def always(outcome):
    return lambda *_: outcome


def states(running, axes=AXES):
    return {
        (e.cell.key.build, e.cell.key.workaround): (e.state, e.count)
        for e in assess(running.cells, axes.rules).assessments
    }


def test_every_cell_is_run_until_its_answer_is_good_enough(tmp_path):
    """Two of six runs would be called an answer, or ten where two say it."""
    hands = FakeHands(truth=lambda env, workaround, _: RACE if (env, workaround) == ("cu130", "none") else OK)

    running = start(tmp_path / "m", hands)

    found = states(running)
    assert found["cu130", "none"] == (State.RACE, "2/2")
    assert found["cu128", "lock"][0] is State.OK
    assert int(found["cu128", "lock"][1].split("/")[1]) >= 6
    assert hands.built == ["cu128", "cu130"]


def test_a_race_is_called_one_beside_a_control_made_once_an_environment(tmp_path):
    """A crash that one thread shows too is no race."""
    hands = FakeHands(truth=lambda env, *_: RACE if env == "cu130" else OK)

    start(tmp_path / "m", hands, budget=parse_budget("5 runs"))
    start(tmp_path / "m", hands, session="s2")

    assert hands.controls == 1


def test_the_two_of_a_pair_run_at_the_same_time_and_nothing_else_does(tmp_path):
    """A run that overlaps any other is measured against the wrong one, or hides its race."""
    hands = SlowHands(truth=lambda _env, workaround, _: OK if workaround == "lock" else RACE)

    running = start(tmp_path / "m", hands, together=True)

    found = states(running)
    assert found["cu130", "lock"] == (State.OK, "0/6")
    assert found["cu130", "none"] == (State.RACE, "2/2")
    slots = defaultdict(set)
    for run in runs_in(running):
        slots[run.beside].add(Path(run.run).name)
    alone = slots.pop("")
    assert len(alone) >= 6
    assert {frozenset(names) for names in slots.values()} == hands.overlaps


def test_a_pair_does_not_begin_while_hazards_are_probed(tmp_path):
    """The second of the pair would start when the probes end, and be compared with a run of another time."""
    truth = always(OK)
    start(tmp_path / "m", FakeHands(truth=truth), budget=parse_budget("26 runs"), together=True)
    hands = SlowHands(truth=truth)

    running = start(tmp_path / "m", hands, axes=replace(AXES, hazards=True), session="s2", together=True)

    slots = defaultdict(set)
    for run in runs_in(running):
        if run.beside and run.session == "s2":
            slots[run.beside].add(Path(run.run).name)
    assert slots
    assert hands.overlaps == {frozenset(names) for names in slots.values()}


def test_a_killed_matrix_goes_on_and_repeats_nothing(tmp_path):
    """Hours of runs would be made again, or a torn line would end it."""
    whole = FakeHands(truth=always(OK))
    start(tmp_path / "whole", whole)
    for die_after in range(0, len(whole.runs), 8):
        path = tmp_path / f"killed-{die_after}"
        first = FakeHands(truth=always(OK), die_after=die_after)
        with pytest.raises(SystemExit):
            start(path, first)
        journal = path / "journal.jsonl"
        journal.write_bytes(journal.read_bytes() + b'{"event": "ran", "key"')
        second = FakeHands(truth=always(OK))

        running = start(path, second, session="s2")

        counts = [len(cell.runs) for cell in running.cells]
        assert sum(counts) == len(first.runs) + len(second.runs)
        assert all(count >= 6 for count in counts)
        assert len(first.runs) + len(second.runs) <= len(whole.runs) + 8


def test_runs_kept_from_before_count_only_when_the_whole_key_is_equal(tmp_path):
    """Yesterday's driver, lock or benchmark would answer for today's."""
    start(tmp_path / "m", FakeHands(truth=always(OK)))
    again = FakeHands(truth=always(OK))
    start(tmp_path / "m", again, session="s2")
    assert again.runs == []

    changed = prepared()
    cells = tuple(replace(cell, key=replace(cell.key, driver="580.1")) for cell in changed.cells)
    newer = tuple(replace(cell, key=replace(cell.key, benchmark="newer")) for cell in changed.cells)
    directory = MatrixDirectory(tmp_path / "m")
    try:
        filled = directory.filled(cells)
        why = directory.not_used(newer)
    finally:
        directory.close()

    assert all(cell.runs == () for cell in filled[: len(cells)])
    assert why.endswith("earlier runs are not used, because these differ now: benchmark")


def test_cells_of_another_machine_stay_beside_ours(tmp_path):
    """A second node with the same directory would overwrite or average the first one's cells."""
    start(tmp_path / "m", FakeHands(truth=always(OK)))
    cells = tuple(replace(cell, key=replace(cell.key, node="n2")) for cell in prepared().cells)
    directory = MatrixDirectory(tmp_path / "m")
    try:
        filled = directory.filled(cells)
    finally:
        directory.close()

    assert {cell.key.node for cell in filled} == {"n1", "n2"}
    assert all(not cell.runs for cell in filled if cell.key.node == "n2")


def test_an_environment_that_cannot_be_built_blocks_its_cells_only(tmp_path):
    """One broken build would end the whole matrix."""
    hands = FakeHands(truth=always(OK), broken=frozenset({"cu130"}))

    found = states(start(tmp_path / "m", hands))

    assert found["cu130", "none"] == (State.NOT_PUBLISHED, "-")
    assert found["cu130", "lock"] == (State.NOT_PUBLISHED, "-")
    assert found["cu128", "none"][0] is State.OK
    assert hands.built.count("cu130") == 1


@pytest.mark.parametrize("hazards", [False, True])
def test_what_ran_in_an_environment_that_was_changed_meanwhile_never_counts(tmp_path, hazards):
    """The edit of an afternoon would stay in the matrix as the named build, also once that is built anew."""
    axes = replace(AXES, hazards=hazards)
    start(tmp_path / "m", FakeHands(truth=always(OK)), axes=replace(axes, builds=("cu128",)))
    edited = start(
        tmp_path / "m",
        FakeHands(truth=lambda env, *_: RACE if env == "cu130" else OK, changed=frozenset({"cu130"})),
        axes=axes,
        session="s2",
    )
    anew = FakeHands(truth=always(OK))

    again = start(tmp_path / "m", anew, axes=axes, session="s3")

    (entry,) = (
        e for e in assess(edited.cells, axes.rules).assessments if e.cell.key.title.startswith("cu130, workaround lock")
    )
    assert (entry.state, entry.count, entry.label) == (State.INCONSISTENT, "-", "inconsistent env")
    assert "changed torch/a.py" in entry.detail
    assert "prune it" in entry.unblock
    assert states(edited, axes)["cu128", "none"][0] is State.OK
    assert states(again, axes)["cu130", "none"] == (State.OK, "0/6")
    assert {run.session for cell in again.cells for run in cell.runs if cell.key.build == "cu130"} == {"s3"}
    assert anew.controls == 0
    directory = MatrixDirectory(tmp_path / "m")
    directory.close()
    assert [run.environment for run in directory.hazards()] == (["cu128", "cu130"] if hazards else [])


def test_a_cell_of_a_changed_environment_hides_its_earlier_runs_and_says_so():
    """`ok 0/6` of last week beside somebody's edit of today would be read as what is there now."""
    why = Blocked(state=State.INCONSISTENT, reason="cu130 was changed", unblock="prune it")
    before = matrix_cells.cell("cu130", [OK] * 6)

    (aside,) = with_block((before,), frozenset({before.key.digest}), why)

    assert aside.runs == ()
    assert aside.blocked.reason == (
        "cu130 was changed; 6 runs from before it was found so count again once it is built anew"
    )


def test_a_budget_of_runs_is_kept_and_the_rest_is_not_tested(tmp_path):
    """A scheduled job would never end, or its report would look complete."""
    hands = FakeHands(truth=always(OK))

    found = states(start(tmp_path / "m", hands, budget=parse_budget("3 runs")))

    assert len(hands.runs) == 3
    assert sum(state is State.NOT_TESTED for state, _ in found.values()) == 1


def test_adding_a_build_runs_only_its_row_and_the_baseline(tmp_path):
    """The whole matrix would be paid for again."""
    start(tmp_path / "m", FakeHands(truth=always(OK)))
    hands = FakeHands(truth=always(OK))

    start(tmp_path / "m", hands, axes=replace(AXES, builds=("cu128", "cu130", "cu132")), session="s2")

    assert {environment for environment, _ in hands.runs} == {"cu128", "cu132"}
    assert {workaround for environment, workaround in hands.runs if environment == "cu128"} == {"none"}


def test_hazards_are_probed_once_an_environment_and_kept(tmp_path):
    """Minutes would be spent on an answer that is deterministic."""
    axes = replace(AXES, hazards=True)
    start(tmp_path / "m", FakeHands(truth=always(OK)), axes=axes)
    directory = MatrixDirectory(tmp_path / "m")
    directory.close()

    assert [run.environment for run in directory.hazards()] == ["cu128", "cu130"]
    assert directory.hazards()[0].answers[0].answer == "leaks"
    probes = [entry for entry in (tmp_path / "m" / "runs").iterdir() if "hazards" in entry.name]
    start(tmp_path / "m", FakeHands(truth=always(OK)), axes=axes, session="s2")
    assert [entry for entry in (tmp_path / "m" / "runs").iterdir() if "hazards" in entry.name] == probes


def test_a_warm_cell_starts_from_a_cache_that_was_filled_once(tmp_path):
    """`warm` would be cold, or every warm run would pay for its own filling."""
    axes = replace(AXES, builds=("cu128", "cu130"), workarounds=("none",), caches=("cold", "warm"))

    running = start(tmp_path / "m", FakeHands(truth=always(OK)), axes=axes)

    runs = [run.run for cell in running.cells for run in cell.runs if cell.key.cache == "warm"]
    assert len(runs) >= 12
    assert all((tmp_path / "m" / run / "warm").exists() for run in runs)
    assert len([entry for entry in (tmp_path / "m" / "runs").iterdir() if entry.name.endswith("fill")]) == 2


def test_every_number_leads_to_a_run_directory_that_exists(tmp_path):
    """A report whose evidence is elsewhere is a rumour."""
    hands = FakeHands(truth=lambda env, workaround, _: RACE if (env, workaround) == ("cu130", "none") else OK)
    running = start(tmp_path / "m", hands)
    origin = Origin(created="now", command="matrix", axes="", benchmark="b", current="cu128")
    report = make_report(running.cells, rules=AXES.rules, origin=origin, points={})
    directory = MatrixDirectory(tmp_path / "m")
    try:
        directory.keep_axes("builds = []")
        directory.write_reports(report, matrix_page(report))
    finally:
        directory.close()

    for cell in running.cells:
        for run in cell.runs:
            assert (tmp_path / "m" / run.run / "result.json").exists()
            assert not (tmp_path / "m" / run.run / "caches").exists()
            assert run.run in (tmp_path / "m" / "matrix.html").read_text()
    for name in ("matrix.json", "matrix.md", "matrix.txt", "matrix.xml", "axes.toml"):
        assert (tmp_path / "m" / name).stat().st_size > 0


def test_two_processes_cannot_fill_one_directory(tmp_path):
    """Their journals would tear each other."""
    first = MatrixDirectory(tmp_path / "m")
    try:
        with pytest.raises(UsageError, match="another process"):
            MatrixDirectory(tmp_path / "m")
    finally:
        first.close()


def test_a_directory_of_something_else_is_refused(tmp_path):
    """Somebody's files would be mixed with runs."""
    (tmp_path / "thesis.txt").write_text("mine")

    with pytest.raises(UsageError, match="holds something else"):
        MatrixDirectory(tmp_path)


def test_the_message_of_the_golden_file_is_a_race():
    """The fake would not produce what the tests above are about."""
    assert "FX to symbolically trace" in MESSAGE
