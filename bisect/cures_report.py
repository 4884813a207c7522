"""The price list of the workarounds as text and as JSON. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isnan
from typing import TYPE_CHECKING

from tabulate import tabulate

from .changed import EXIT_CODE, Changed
from .cures import Price, Safety
from .exit_codes import UNSETTLED

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CureAnswer:
    """Everything the report says.

    `control` is how the run with one thread ended: clean, failed, or not run; `changed` what somebody changed in the
    environment after it was built, None for one as it was built.
    """

    environment: str
    torch: str
    prices: tuple[Price, ...]
    control: str
    amplified: bool
    directory: str
    reproduce: str
    changed: Changed | None = None


def recommended(answer: CureAnswer) -> Price | None:
    """The fastest safe workaround; of an environment that is not what was built, nothing is recommended."""
    return None if answer.changed is not None else _best(answer)


def _best(answer: CureAnswer) -> Price | None:
    safe = [price for price in answer.prices if price.safety is Safety.SAFE and not isnan(price.ktok_s)]
    return max(safe, key=lambda price: price.ktok_s, default=None)


def exit_code(answer: CureAnswer) -> int:
    """0 when every workaround was judged, 4 when one was not tested, 6 when what ran is not what was built."""
    if answer.changed is not None:
        return EXIT_CODE
    return UNSETTLED if any(price.safety is Safety.NOT_TESTED for price in answer.prices) else 0


def verdict(answer: CureAnswer) -> str:
    """One sentence: what to use here."""
    return answer.changed.over(_seen(answer)) if answer.changed is not None else _seen(answer)


def _seen(answer: CureAnswer) -> str:
    best, amplified = _best(answer), " (amplified)" if answer.amplified else ""
    where = f"in {answer.environment} (torch {answer.torch}){amplified}"
    if best is None:
        return f"no workaround is safe {where}."
    if best.name == "none":
        return f"no workaround is needed {where}: {best.why}."
    return f"use {best.name} {where}: {best.why}."


def render(answer: CureAnswer) -> str:
    """The verdict, the table, and what its columns mean."""
    headers = ["workaround", "", "failed", "95 %", "first step", "Ktok/s", "to best safe", "dense", "recompiles"]
    headers.append("peak")
    table = tabulate([_row(price) for price in answer.prices], headers=headers, disable_numparse=True)
    why = [f"  {price.name}: {price.safety}: {price.why}{_kinds(price)}" for price in answer.prices]
    notes = [
        f"1-thread control: {answer.control}; intervals are Clopper and Pearson's; times and rates are medians over",
        "the runs that did not fail; safe needs an argument, not only zero failures.",
    ]
    if answer.amplified:
        notes.append("AMPLIFIED: failure counts are of runs made to collide, not of real training.")
    remedy = [] if answer.changed is None else [answer.changed.remedy]
    ends = [f"run directory: {answer.directory}", *remedy, f"repeat with:   {answer.reproduce}"]
    return "\n".join([verdict(answer), "", table, "", *why, "", *notes, "", *ends])


def _row(price: Price) -> list[str]:
    low, high = price.interval
    if price.safety in (Safety.NOT_APPLICABLE, Safety.NOT_TESTED):
        return [price.name, price.safety.value, *[""] * 8]
    return [
        price.name,
        price.safety.value,
        f"{price.failed}/{price.runs}",
        f"{low * 100:.0f}-{high * 100:.0f} %",
        _number(price.first_step_s, "{:.1f} s"),
        _number(price.ktok_s, "{:.3g}"),
        _number(price.relative, "{:.2f}"),
        _number(price.dense_calls, "{:.0f}"),
        _number(price.recompiles, "{:.0f}"),
        _number(price.peak_bytes / 2**30, "{:.2f} GiB"),
    ]


def _kinds(price: Price) -> str:
    """The kinds of failure with their counts, when there are several."""
    return f" ({', '.join(f'{name} {count}x' for name, count in price.kinds)})" if len(price.kinds) > 1 else ""


def _number(value: float, form: str) -> str:
    return "" if isnan(value) else form.format(value)


def as_json(answer: CureAnswer) -> dict[str, object]:
    """The same as data; null where nothing was measured."""
    best = recommended(answer)
    return {
        "schema": SCHEMA,
        "kind": "workarounds",
        "sentence": verdict(answer),
        "recommended": best.name if best else None,
        "environment": answer.environment,
        "changed": None if answer.changed is None else asdict(answer.changed),
        "torch": answer.torch,
        "amplified": answer.amplified,
        "control": answer.control,
        "workarounds": [_price_json(price) for price in answer.prices],
        "directory": answer.directory,
        "reproduce": [answer.reproduce],
        "exit_code": exit_code(answer),
    }


def _price_json(price: Price) -> dict[str, object]:
    measured = ("first_step_s", "ktok_s", "relative", "dense_calls", "recompiles", "peak_bytes")
    return {
        "name": price.name,
        "safety": price.safety.value,
        "why": price.why,
        "failed": price.failed,
        "runs": price.runs,
        "interval": [round(edge, 4) for edge in price.interval],
        "kinds": dict(price.kinds),
        **{name: None if isnan(getattr(price, name)) else round(getattr(price, name), 4) for name in measured},
    }


def sorted_prices(prices: Sequence[Price]) -> tuple[Price, ...]:
    """Safe first, then lucky, then the rest; the faster first within each."""
    order = list(Safety)
    return tuple(
        sorted(prices, key=lambda price: (order.index(price.safety), -(0.0 if isnan(price.ktok_s) else price.ktok_s)))
    )
