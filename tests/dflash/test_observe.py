"""What is read from torch's logs, and who is named for it."""

from __future__ import annotations

import warnings

import pytest

from dflash.observe import Observer, recompile_reason

pytestmark = pytest.mark.torch

RECOMPILED = """Recompiling function flex in /env/dflash/attention.py:60
    triggered by the following guard failure(s):
    - 1/3: GLOBAL_STATE changed: grad_mode
    - 1/2: ___check_obj_id(mask.mask_mod.__code__, 139777619806896)  # return call(q, k, v, mask, scale)
    - 1/1: tensor 'k' size mismatch at index 2. expected 384, actual 256
    - 1/0: GLOBAL_STATE changed: grad_mode """
LIMIT = """torch._dynamo hit config.recompile_limit (8)
   function: 'flex' (/env/dflash/attention.py:60)
   last reason: 1/0: tensor 'k' size mismatch at index 2. expected 384, actual 256"""


def _observer():
    return Observer(lambda: ("drafter-1", 4))


def test_the_reason_of_a_recompilation_is_what_changed_not_what_never_fitted():
    """Every recompilation would be blamed on the gradient mode of an entry for another pass."""
    without_size = "\n".join(line for line in RECOMPILED.splitlines() if "size mismatch" not in line)

    assert recompile_reason(RECOMPILED) == "tensor 'k' size mismatch at index 2. expected 384, actual 256"
    assert recompile_reason(without_size) == "GLOBAL_STATE changed: grad_mode"
    assert recompile_reason("Recompiling function flex in x.py:1") == "unknown"


def test_a_reason_names_no_addresses():
    """The same reason would be listed once for every process and object."""
    only = "Recompiling function flex\n    - 0/0: ___check_obj_id(mask.mask_mod.__code__, 139777619806896)  # return"

    assert recompile_reason(only) == "___check_obj_id(mask.mask_mod.__code__, ID)"


def test_a_limit_is_recorded_with_its_value_thread_and_step():
    """The moment at which torch gave up compiling would stay a line in a log."""
    observer = _observer()
    observer.note_log(LIMIT)

    assert observer.limit_hits == [{"thread": "drafter-1", "limit": 8, "step": 4, "kind": "recompile_limit"}]


def test_recompilations_are_counted_by_function_reason_and_thread():
    """How often, and in which thread, would be lost."""
    observer = _observer()
    observer.note_log(RECOMPILED)
    observer.note_log(RECOMPILED)
    observer.note_log("some other line")

    assert observer.snapshot()["recompiles"] == 2
    assert observer.snapshot()["recompile_reasons"] == [
        {
            "function": "flex",
            "reason": "tensor 'k' size mismatch at index 2. expected 384, actual 256",
            "count": 2,
            "thread": "drafter-1",
        }
    ]


def test_only_the_first_dense_call_is_described_and_all_are_counted():
    """The start of a slowdown would be overwritten by its thousandth call."""
    observer = _observer()
    for size in (100, 200):
        observer.note_dense(size)

    assert observer.dense_calls == 2
    assert observer.dense_first == {"thread": "drafter-1", "step": 4, "score_bytes": 100}


@pytest.mark.filterwarnings("default")
def test_a_warning_is_recorded_and_still_shown(monkeypatch):
    """The only sign of an unfused attention is a warning on a stream nobody keeps."""
    shown = []
    monkeypatch.setattr(warnings, "showwarning", lambda message, *_rest: shown.append(str(message)))
    observer = _observer()
    observer.install()
    warnings.warn("flex_attention called without torch.compile()", UserWarning, stacklevel=1)

    assert shown == ["flex_attention called without torch.compile()"]
    assert observer.snapshot()["warnings"] == [
        {"text": "flex_attention called without torch.compile()", "count": 1, "thread": "drafter-1"}
    ]
