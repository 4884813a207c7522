"""Loss values in a log that are not numbers: `loss: nan`, `losses [9.8, inf]`, a `nan` in a table's loss column.

`inf` and `nan` inside words (info, nanoseconds) and starting values (`best_loss=inf`) are not losses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NOT_A_NUMBER = r"[+-]?(?:nan|inf(?:inity)?)"
_VALUE = re.compile(
    rf"(?<![\w.-])(?P<key>(?:[\w.]+[/_ -])?(?:loss|losses|perplexity|ppl|nll|ce|xent|cross_entropy)(?:[/_][\w.]+)?)['\"]?\s?(?:[:=|]|\bis\b|\s)\s*"
    rf"[\[(]?(?:tensor\(|array\(\[)?['\"]?{_NOT_A_NUMBER}(?![\w-])",
    re.IGNORECASE,
)
_LIST = re.compile(
    rf"(?<![\w.-])(?P<key>(?:\w+[/_ -])?loss(?:es)?)(?: column)?['\"]?\s*[:=]?\s*[\[('\"][^\])]*?(?<![\w.]){_NOT_A_NUMBER}(?![\w-])",
    re.IGNORECASE,
)
_GRADIENT = re.compile(
    r"(?<![\w.-])(?P<key>grad(?:ient)?[_ ]?norm|gnorm)['\"]?\s*[:=]?\s*(?:tensor\()?['\"]?nan(?![\w-])", re.IGNORECASE
)
_STARTING_VALUE = re.compile(
    r"best|min|max|init|prev|lowest|smallest|threshold|clip|scale|limit|stop|patience|target_loss|last_good",
    re.IGNORECASE,
)
_CELL = re.compile(r"[|,;\s]+")
_IS_NOT_A_NUMBER = re.compile(rf"{_NOT_A_NUMBER}\Z", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z][\w/().%-]*\Z")


@dataclass(slots=True)
class LossReader:
    """Reads a log line by line and remembers the header of the last table that has a loss column."""

    column: int = -1
    num_columns: int = 0

    def read(self, text: str) -> bool:
        """Whether the line gives a loss that is not a number."""
        lowered = text.lower()
        if "nan" in lowered or "inf" in lowered:
            if any(self._says(pattern, text) for pattern in (_VALUE, _LIST, _GRADIENT)):
                return True
            if self.column >= 0 and self._cell_is_not_a_number(text):
                return True
        if "loss" in lowered:
            self._learn_header(text)
        return False

    def _says(self, pattern: re.Pattern[str], text: str) -> bool:
        return any(
            not _STARTING_VALUE.search(text[max(0, match.start() - 20) : match.end("key")])
            for match in pattern.finditer(text)
        )

    def _cell_is_not_a_number(self, text: str) -> bool:
        cells = _cells(text)
        return len(cells) == self.num_columns and bool(_IS_NOT_A_NUMBER.match(cells[self.column]))

    def _learn_header(self, text: str) -> None:
        cells = _cells(text)
        if len(cells) < 2 or not all(_WORD.match(cell) for cell in cells):
            return
        for index, cell in enumerate(cells):
            if re.fullmatch(r"(?:\w+[_/])?loss(?:es)?", cell, re.IGNORECASE) and not _STARTING_VALUE.search(cell):
                self.column, self.num_columns = index, len(cells)
                return


def _cells(text: str) -> list[str]:
    return [cell for cell in _CELL.split(text.strip().strip("|")) if cell]
