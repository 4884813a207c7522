"""Greedy decoding, plain and speculative: what the drafter is for, and the proof that it changes no token.

A cycle starts with the anchor, the target's own next token. The drafter guesses the rest of a block from the context
before the anchor; one target pass over the block checks all guesses; the leading right ones are kept. Every
token kept is thus the target's own greedy choice. Recomputes the whole sequence each time: made for toy sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from .model import block_tokens, build_masks, positions

if TYPE_CHECKING:
    from .attention import Attention
    from .model import Drafter, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """Tokens after the prompt, and for each cycle 1 + the number of right guesses."""

    tokens: list[int]
    accepted: list[int]


@torch.no_grad()
def greedy(target: Target, prompt: list[int], *, count: int) -> list[int]:
    """`count` tokens, one target pass each."""
    tokens = list(prompt)
    for _ in range(count):
        hidden_BSM, _ = target(torch.tensor([tokens]))
        tokens.append(int(target.head(hidden_BSM[:, -1]).argmax()))
    return tokens[len(prompt) :]


@torch.no_grad()
def speculate(target: Target, drafter: Drafter, attend: Attention, prompt: list[int], *, count: int) -> Decoded:
    """The same tokens, one target pass for each block of guesses."""
    tokens, accepted = list(prompt), []
    tokens.append(greedy(target, tokens, count=1)[0])
    while len(tokens) < len(prompt) + count:
        guesses = _draft(target, drafter, attend, tokens)
        hidden_BSM, _ = target(torch.tensor([tokens + guesses]))
        chosen = target.head(hidden_BSM[0, len(tokens) - 1 :]).argmax(-1).tolist()
        right = _leading_matches(guesses, chosen)
        accepted.append(1 + right)
        tokens += chosen[: right + 1]
    return Decoded(tokens=tokens[len(prompt) : len(prompt) + count], accepted=accepted)


def _draft(target: Target, drafter: Drafter, attend: Attention, tokens: list[int]) -> list[int]:
    """Guesses for the tokens after the last one, which is the anchor and no context of its own block."""
    config, context = drafter.config, len(tokens) - 1
    _, features_BSF = target(torch.tensor([tokens[:-1]]))
    anchors_BN, keep_BN = torch.tensor([[context]]), torch.tensor([[True]])
    block_BQ = block_tokens(
        torch.tensor([tokens]), anchors_BN, keep_BN, block=config.block_size, mask_token=config.mask_token
    )
    position_BK = positions(anchors_BN, context=context, block=config.block_size)
    masks = build_masks(config, attend, anchors_BN, keep_BN, context)
    hidden_BQM = drafter(block_BQ, features_BSF, position_BK, attend, masks)
    return [int(token) for token in drafter.logits(hidden_BQM[0, 1:]).argmax(-1)]


def _leading_matches(guesses: list[int], chosen: list[int]) -> int:
    for index, guess in enumerate(guesses):
        if guess != chosen[index]:
            return index
    return len(guesses)
