"""How a probability is told to a person: rounded, but never up to certainty nor down to nothing. Pure."""

from __future__ import annotations


def percent(share: float) -> str:
    """0.981 -> `98 %`, 0.99961 -> `99.96 %`, 1.0 (which only rounding reaches) -> `> 99.999 %`.

    Exactly 0 is `0 %`: what cannot be the answer has no probability, as a candidate outside the range.
    """
    if share == 0.0 or 0.01 <= share <= 0.99:
        return f"{share * 100:.0f} %"
    digits = next((n for n in (1, 2, 3) if 0 < float(f"{share * 100:.{n}f}") < 100), 0)
    if digits:
        return f"{share * 100:.{digits}f} %"
    return "> 99.999 %" if share > 0.5 else "< 0.001 %"
