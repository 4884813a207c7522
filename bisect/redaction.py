"""What may not be written down: the values of secret variables, and user names and passwords in URLs. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envs.scrub import is_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

KEPT_OUT = "(kept out)"
"""What stands in the place of a secret."""
_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")


def without_credentials(text: str) -> str:
    """The text without a user name and password in any URL."""
    return _USERINFO.sub(f"{KEPT_OUT}@", text)


def without_secrets(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables with the values of secret-looking names, and credentials inside URLs, left out."""
    return {
        name: KEPT_OUT if is_secret(name) else without_credentials(value) for name, value in sorted(variables.items())
    }
