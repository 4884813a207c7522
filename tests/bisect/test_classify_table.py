"""The table of signatures: every row proves what it says, none hides behind an earlier one, each names its source."""

from __future__ import annotations

from bisect.model import Conclusion, OutcomeName
from bisect.signatures import TABLE, first_match
from bisect.signatures.advice import ADVICE, MEANING

import pytest


@pytest.mark.parametrize("signature", TABLE, ids=lambda signature: signature.example[:60])
def test_the_example_of_a_signature_is_found_by_it_and_by_no_earlier_one(signature):
    """A row could never match, or be hidden by a broader row before it."""
    match = first_match(signature.example)

    assert match is not None
    assert match[0] is signature


@pytest.mark.parametrize("signature", TABLE, ids=lambda signature: signature.example[:60])
def test_anchors_are_lower_case_and_every_row_has_a_source(signature):
    """An anchor with a capital would never be in the lowered line."""
    assert signature.source
    assert all(anchor and anchor == anchor.lower() for anchor in signature.anchors)


def test_every_outcome_has_an_advice_and_every_conclusion_a_meaning():
    """A person would be told what happened and left alone with it."""
    assert set(ADVICE) == set(OutcomeName)
    assert set(MEANING) == set(Conclusion)
