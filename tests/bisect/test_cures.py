"""Safe needs an argument, unsafe needs a failure, everything else was luck; and the price list says so."""

from __future__ import annotations

import argparse
import io
import json
from bisect.classify import Classification
from bisect.commands import workarounds as command
from bisect.cures import FLAG_HAZARDS, NAMES, PROBED_UNDER, Cure, CureRun, Safety, judge, price_all, reachable_hazards
from bisect.cures_report import CureAnswer, as_json, render, sorted_prices, verdict
from bisect.model import Outcome
from bisect.result_file import parse_hazards, parse_train

import pytest

from envs.errors import UsageError

from .fake_python import CLEAN, GOLDEN, fake_environment


def hazards(**answers):
    content = json.loads((GOLDEN / "hazards.json").read_text())
    one = content["hazards"][0]
    content["hazards"] = [one | {"name": name, "answer": answer} for name, answer in answers.items()]
    return parse_hazards(json.dumps(content))


def result(*, closes=(), process=None, ktok_s=1.0, compile_masks=True):
    content = json.loads((GOLDEN / "train.json").read_text())
    content["workaround"] |= {"closes": list(closes), "safe_argument": "everything is inside one lock"}
    content["config"]["compile_masks"] = compile_masks
    content["process"] |= {"dense_calls": 0, "warmed_in_main": True} | (process or {})
    content["throughput"]["ktok_s"] = ktok_s
    return parse_train(json.dumps(content))


def run(outcome="ok", *, found=None, completed=True):
    classification = Classification(outcome=Outcome.parse(outcome), evidence=())
    return CureRun(classification=classification, result=found or result(), completed=completed)


RACY = hazards(fx_flag_compile="leaks", metrics_context="safe")
FIXED = hazards(fx_flag_compile="safe", metrics_context="safe")


def test_any_failure_is_unsafe_whatever_the_argument():
    """An argument that a run contradicts is wrong."""
    cure = Cure(name="lock", runs=(run(found=result(closes=FLAG_HAZARDS)), run("fx_flag_race", completed=False)))

    assert judge(cure, RACY) == (Safety.UNSAFE, "fx_flag_race in 1 of 2 runs")


def test_no_failure_without_an_argument_is_luck():
    """The incident's warm-up had zero crashes too, until it had one."""
    assert judge(Cure(name="warmup", runs=(run(),) * 100), RACY) == (
        Safety.LUCKY,
        "no failure, but nothing closes fx_flag_compile",
    )


def test_what_a_workaround_excludes_is_an_argument():
    """A complete lock is safe because of what it excludes, not because of what was seen."""
    cure = Cure(name="lock", runs=(run(found=result(closes=FLAG_HAZARDS)),))

    assert judge(cure, RACY) == (Safety.SAFE, "everything is inside one lock")


def test_a_probe_under_the_workaround_outweighs_its_own_claim():
    """`thread-local-flag` closes the flag only if the probe says so on this very build."""
    runs = (run(found=result(closes=FLAG_HAZARDS)),)

    assert judge(Cure(name="thread-local-flag", runs=runs, under=RACY), RACY)[0] is Safety.LUCKY
    assert judge(Cure(name="thread-local-flag", runs=runs, under=FIXED), RACY) == (
        Safety.SAFE,
        "the probes made under it find fx_flag_compile closed",
    )


def test_a_build_without_reachable_hazards_needs_no_workaround():
    """On a fixed build `none` is safe, by the probes."""
    safety, why = judge(Cure(name="none", runs=(run(),)), FIXED)

    assert safety is Safety.SAFE
    assert "no hazard of this build" in why


def test_a_hazard_that_could_not_be_tested_is_not_closed():
    """Not tested must never look like safe."""
    plain = hazards(fx_flag_compile="could-not-test", metrics_context="safe")

    assert judge(Cure(name="none", runs=(run(),)), plain)[0] is Safety.LUCKY


def test_without_probes_nothing_is_safe():
    """The argument comes from the probes; without them there are only clean runs."""
    assert judge(Cure(name="none", runs=(run(),)), None)[0] is Safety.LUCKY


@pytest.mark.parametrize(
    ("found", "name"),
    [
        (result(compile_masks=False), "mask_metadata"),
        (result(process={"dense_calls": 3}), "fx_patcher"),
        (result(process={"warmed_in_main": False}), "first_concurrent_compile"),
    ],
)
def test_circumstances_make_a_hazard_reachable(found, name):
    """A hazard that this configuration cannot meet must not condemn a workaround, one that it meets must."""
    assert name in reachable_hazards(found)
    assert name not in reachable_hazards(result())


def test_a_run_that_compiles_nothing_reaches_no_hazard():
    """Dense attention without a compiler is safe, only slow."""
    assert reachable_hazards(result(process={"compiles": 0, "dense_calls": 9}, compile_masks=False)) == ()


def priced():
    safe, unsafe = result(closes=FLAG_HAZARDS, ktok_s=8.0), result(ktok_s=12.0)
    cures = (
        Cure(name="none", runs=(run(found=unsafe), run("fx_flag_race", completed=False))),
        Cure(name="lock", runs=(run(found=safe), run(found=safe))),
        Cure(name="lock-compile", runs=(run(found=result(closes=FLAG_HAZARDS, ktok_s=10.0)),)),
        Cure(name="force-compile", refusal="this build has no such switch"),
    )
    return sorted_prices(price_all(cures, RACY))


def answer(**fields):
    values = {
        "environment": "cu130",
        "torch": "2.11.0",
        "prices": priced(),
        "control": "clean",
        "amplified": False,
        "directory": "runs/x",
        "reproduce": "python -m bisect workarounds cu130",
    }
    return CureAnswer(**(values | fields))


def test_speed_is_relative_to_the_fastest_safe_one():
    """12 Ktok/s that crash are no yardstick."""
    assert [(row["name"], row["relative"]) for row in as_json(answer())["workarounds"]] == [
        ("lock-compile", 1.0),
        ("lock", 0.8),
        ("none", 1.2),
        ("force-compile", None),
    ]


def test_the_verdict_recommends_the_fastest_safe_one():
    """The reader wants one name and the reason."""
    assert verdict(answer()) == "use lock-compile in cu130 (torch 2.11.0): everything is inside one lock."


def test_the_table_gives_counts_with_intervals_and_reasons():
    """1 of 2 is between 1 and 99 %; a table that hides this sells luck."""
    report = render(answer())

    assert "none           unsafe          1/2       1-99 %" in report
    assert "  force-compile: not applicable: this build has no such switch" in report


def test_amplified_counts_are_labelled():
    """An amplified rate quoted as a real one would be a lie."""
    report = render(answer(amplified=True))

    assert "(amplified)" in report.splitlines()[0]
    assert "AMPLIFIED" in report


def request(tmp_path, *names, repeat=2):
    return command.Request(
        names=names,
        repeat=repeat,
        arguments=(),
        threads=None,
        control=True,
        environment=(),
        timeout_s=30.0,
        directory=tmp_path / "out",
    )


PROBES_AND_RUNS = (
    CLEAN.replace("result(json.dumps(content))", "train = json.dumps(content)")
    + f"""
if "dflash.hazards" in argv:
    result({json.dumps((GOLDEN / "hazards.json").read_text())})
elif option("--workaround") == "force-compile":
    content["workaround"]["refusal"] = "not in this build"
    result(json.dumps(content))
    sys.exit(2)
else:
    result(train)
"""
)


@pytest.mark.subprocess
def test_rounds_interleave_the_workarounds_and_a_refused_one_runs_once(tmp_path):
    """Drift must hit all alike; a workaround that this build lacks is not applicable, not a failure."""
    built = fake_environment(tmp_path, PROBES_AND_RUNS)

    cures, plain, control = command.measure(
        request(tmp_path, "none", "lock", "force-compile"), built, stderr=io.StringIO()
    )

    assert control == "clean"
    assert plain.answer("fx_flag_trace") == "leaks"
    assert [(cure.name, len(cure.runs), cure.refusal) for cure in cures] == [
        ("none", 2, ""),
        ("lock", 2, ""),
        ("force-compile", 0, "not in this build"),
    ]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "control",
        "force-compile-001",
        "hazards-force-compile",
        "hazards-none",
        "lock-001",
        "lock-002",
        "none-001",
        "none-002",
    ]


def parse(*words):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize("words", ["cu130 --only lokc", "cu130 --repeat 0"])
def test_wrong_options_fail_before_anything_is_built(words):
    """A typo must not cost a 5 GB build first."""
    with pytest.raises(UsageError):
        command.run(parse(*words.split()), stdout=io.StringIO(), stderr=io.StringIO())


def test_the_lists_of_both_programs_agree():
    """The workload is another program: its names are repeated here and must not drift."""
    source = (GOLDEN.parents[1] / "dflash" / "workarounds" / "__init__.py").read_text()
    listed = source.partition("NAMES = (")[2].partition(")")[0]

    assert [name.replace("=128", "=N") for name in NAMES] == [line.strip(' ",') for line in listed.split()]
    assert set(PROBED_UNDER) <= set(NAMES)
