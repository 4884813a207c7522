"""The posterior against a slow reference that enumerates everything, and against published numbers."""

import math
from bisect.engine.posterior import PRIOR_CLAIMED, PRIOR_NONE, cautious_pair, infer, ordered_prior
from bisect.lineup import lineup

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .searches import problem, seen


def _slow(line, pair):
    """Sum every change point, direction and pair of rates, one product at a time."""
    prior = ordered_prior()
    counts = list(zip(line.failures.tolist(), line.passes.tolist(), strict=True))

    def likelihood(rates):
        return math.exp(
            sum(f * math.log(rate) + s * math.log1p(-rate) for (f, s), rate in zip(counts, rates, strict=True))
        )

    size = len(counts)
    weight = {
        "none": PRIOR_NONE * sum(p * likelihood([r] * size) for r, p in zip(prior.rates, prior.same, strict=True))
    }
    for k in range(1, size):
        for rising in (True, False):
            share = PRIOR_CLAIMED if rising is line.rising else 1 - PRIOR_CLAIMED
            weight[k, rising] = sum(
                (1 - PRIOR_NONE) / (size - 1) * share * pair[a, b]
                * likelihood([low if (i < k) is rising else high for i in range(size)])
                for a, low in enumerate(prior.rates) for b, high in enumerate(prior.rates) if pair[a, b]
            )  # fmt: skip
    total = sum(weight.values())
    return {key: value / total for key, value in weight.items()}


@settings(max_examples=8, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=4), st.booleans(), st.booleans())
def test_the_posterior_is_the_sum_over_everything(counts, rising, cautious):
    """The matrix products would drop or double a term, or leave out the pair of rates that was given."""
    text = " ".join(f"c{place}:{'b' * bad}{'g' * good}" for place, (bad, good) in enumerate(counts))
    ends = {} if rising else {"good": f"c{len(counts) - 1}", "bad": "c0"}
    line = lineup(problem(len(counts), **ends), seen(text))
    pair = cautious_pair() if cautious else ordered_prior().pair
    expected, belief = _slow(line, pair), infer(line, pair)

    assert belief.none == pytest.approx(expected["none"])
    assert belief.rise.mass == pytest.approx([expected[k, True] for k in range(1, len(counts))])
    assert belief.fall.mass == pytest.approx([expected[k, False] for k in range(1, len(counts))])


@pytest.mark.parametrize(
    ("observations", "expected"),
    [
        (f"c0:{'g' * 100} c4:{'b' * 100} c2:g", [0.0, 0.0, 0.5, 0.5]),
        (f"c0:{'g' * 100} c4:{'b' * 90}{'g' * 10} c2:g", [0.0455, 0.0455, 0.4545, 0.4545]),
    ],
)
def test_known_rates_give_the_known_numbers(observations, expected):
    """One pass among candidates of which the bad ones pass in a tenth of the runs would weigh more or less than 10."""
    change = infer(lineup(problem(5), seen(observations))).change

    assert change == pytest.approx(expected, abs=0.012)


def test_the_prior_keeps_noisy_good_sides_possible():
    """A good side assumed clean makes a search confidently wrong on a machine that fails 5 % of runs by itself."""
    prior = ordered_prior()
    low = prior.pair.sum(axis=1)

    assert low[prior.rates >= 0.04].sum() > 0.2
    assert low[prior.rates >= 0.2].sum() > 0.02
    assert prior.pair.sum() == pytest.approx(1.0)
    assert prior.same.sum() == pytest.approx(1.0)


def test_a_skip_is_no_information():
    """An unbuildable candidate would count for or against its neighbours."""
    asked = problem(9)
    with_skips = infer(lineup(asked, seen("c0:gg c8:bb c4:sss")))
    without = infer(lineup(asked, seen("c0:gg c8:bb")))

    np.testing.assert_array_equal(with_skips.change, without.change)


def test_a_thousand_runs_do_not_underflow():
    """Long searches would divide zero by zero."""
    text = f"c0:{'g' * 900} c8:{'b' * 900} c3:{'g' * 500} c5:{'bg' * 300}"
    belief = infer(lineup(problem(9), seen(text)))

    assert np.isfinite(belief.change).all()
    assert belief.none + belief.change.sum() == pytest.approx(1.0)
