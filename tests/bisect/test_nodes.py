"""What nodes have to do with failures: the broken node is named and does not vote, chance is not blamed on a node."""

import random
from bisect.engine import next_step
from bisect.model import Conclusion, Found, Observation, Probe
from bisect.nodes import dependent, faulty, without
from bisect.state import State

import pytest

from .searches import problem

RETRY, WORDS = Conclusion.RETRY, {"g": Conclusion.GOOD, "b": Conclusion.BAD, "s": Conclusion.SKIP}


def runs(text):
    """`c1@n1:gg c1@n2:b` -> observations, numbered."""
    found = []
    for part in text.split():
        name, letters = part.split(":")
        candidate, node = name.split("@")
        for letter in letters:
            run = f"run-{len(found) + 1:04d}"
            found.append(Observation(candidate=candidate, node=node, conclusion=WORDS[letter], run=run))
    return found


def test_a_candidate_that_fails_on_one_node_only_is_told_with_counts():
    """Somebody would bisect torch where a GPU is broken."""
    (found,) = dependent(runs("c1@n1:ggg c1@n2:bbb c2@n1:gg c2@n2:g"))

    assert (found.candidate, found.node) == ("c1", "n2")
    assert str(found) == (
        "c1 fails on node n2 only: 3/3 there, 0/3 elsewhere (chance of that if nodes made no difference: 0.05)"
    )


@pytest.mark.parametrize(
    "text", ["c1@n1:gg c1@n2:b", "c1@n1:gb c1@n2:bbb", "c1@n2:bbbb", "c1@n1:gggg", "c1@n1:gggggg c1@n2:gb"]
)
def test_what_chance_or_one_node_alone_explains_is_no_finding(text):
    """Every flaky failure happens somewhere."""
    assert dependent(runs(text)) == ()


def test_a_node_that_fails_everything_is_named_and_its_runs_are_flagged():
    """One broken node turns good builds bad, and the verdict wrong."""
    seen = runs("c0@n1:gggg c0@n3:b c4@n1:ggg c4@n3:b c8@n1:ggg c8@n3:b c2@n2:ggg c2@n3:b c12@n1:bb")
    (found,) = faulty(seen, ())

    assert found.node == "n3"
    assert found.runs == ("run-0005", "run-0009", "run-0013", "run-0017")
    assert "n3" not in {item.node for item in without(seen, [found])}
    assert str(found).startswith("node n3 gets no more runs: all of its 4 runs failed while the same candidates pass")


@pytest.mark.parametrize("text", ["c12@n1:bb c12@n3:bbbbb c0@n1:gg", "c0@n1:ggg c0@n3:bb", "c0@n3:bbbbbb c4@n3:bb"])
def test_a_node_that_ran_only_bad_candidates_or_runs_alone_is_not_blamed(text):
    """The bad half of the range would be called a broken node."""
    assert faulty(runs(text), ()) == ()


def test_a_node_that_loses_its_jobs_and_ends_none_is_named():
    """It is free again at once, so it gets every job of the search."""
    lost = [Observation(candidate="c1", node="n3", conclusion=RETRY, run=f"run-{number}") for number in range(2)]

    assert [item.node for item in faulty(runs("c1@n1:g"), lost)] == ["n3"]
    assert faulty(runs("c1@n1:g c1@n3:g"), lost) == ()
    assert faulty([], [Observation(candidate="c1", conclusion=RETRY, run="r")] * 5) == (), "nobody is to blame"


def test_noise_alone_is_hardly_ever_blamed_on_a_node():
    """An exclusion costs a node, and throws its results away."""
    blamed = 0
    for seed in range(200):
        rng = random.Random(seed)
        seen = [
            Observation(
                candidate=f"c{rng.randrange(6)}",
                node=f"n{rng.randrange(4)}",
                conclusion=Conclusion.BAD if rng.random() < 0.5 else Conclusion.GOOD,
                run=f"run-{number}",
            )
            for number in range(40)
        ]
        blamed += bool(faulty(seen, ()))
    assert blamed <= 4


def test_a_search_with_a_broken_node_finds_the_change_and_mostly_names_the_node():
    """Everything fails on n1 of three nodes; the journal alone must be enough to see through it."""
    right = named = 0
    for seed in range(12):
        step, state = _searched(random.Random(seed))
        right += isinstance(step, Found) and step.first_bad == "c5"
        named += [item.node for item in state.faulty_nodes] == ["n1"]
        assert not {item.node for item in state.faulty_nodes} - {"n1"}
    assert right >= 9
    assert named >= 6


def _searched(rng):
    asked, state = problem(9, max_runs=400), State()
    while isinstance(step := next_step(asked, state.evidence), Probe):
        avoided = {item.node for item in state.faulty_nodes}
        node = rng.choice([name for name in ("n0", "n1", "n2") if name not in avoided])
        bad = node == "n1" or (int(step.candidate[1:]) >= 5 and rng.random() < 0.5)
        entry = {
            "event": "observed",
            "candidate": step.candidate,
            "conclusion": "bad" if bad else "good",
            "run": f"run-{len(state.observations) + 1}",
            "node": node,
        }
        state = state.after(entry)
    return step, state
