"""The one door to the network that is not uv's: small pages of package indexes, and no wheel to install."""

from __future__ import annotations

import base64
import hashlib
import time
from dataclasses import dataclass
from email.utils import mktime_tz, parsedate_tz
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

from .errors import CannotBuildError
from .index import redacted

if TYPE_CHECKING:
    import urllib.request
    from collections.abc import Mapping

_ATTEMPTS = 3
_ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.9, */*;q=0.1"
_HEADERS = {"Accept": _ACCEPT, "User-Agent": "torch-upgrade-bisect", "Cache-Control": "no-cache"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A page and the address it finally came from, against which its links are resolved."""

    url: str
    text: str


def page(url: str, *, timeout_s: float = 30.0) -> Response:
    """Fetch a small text; CannotBuildError `not_published` for 404 and 403, `download_failed` for the rest.

    Server errors and broken connections are tried three times; a refused connection or an unknown host once.
    """
    import urllib.error  # noqa: PLC0415  (costs a tenth of the time in which a cached environment is ready)
    import urllib.request  # noqa: PLC0415

    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with urllib.request.urlopen(_request(url, _HEADERS), timeout=timeout_s) as answer:
                return Response(url=answer.url, text=answer.read().decode("utf-8", errors="replace"))
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in (403, 404, 410):
                raise _missing(url, error.code) from error
            if attempt == _ATTEMPTS or error.code < 500:
                raise _failed(url, f"HTTP {error.code}") from error
        except urllib.error.URLError as error:
            raise _failed(url, str(error.reason)) from error
        except OSError as error:
            if attempt == _ATTEMPTS:
                raise _failed(url, str(error)) from error
        time.sleep(0.5 * attempt)
    raise AssertionError("every attempt returns or raises")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a server says of a file: bytes, and POSIX time of its last change; 0 where it does not say."""

    size: int = 0
    modified: float = 0.0


def look(url: str, *, timeout_s: float = 30.0) -> Look:
    """Ask for the file at `url`, a `file://` one too, without downloading it; nothing known where that fails."""
    import urllib.request  # noqa: PLC0415  (see page)

    asked = _request(url, {"User-Agent": _HEADERS["User-Agent"]}, method="HEAD")
    try:
        with urllib.request.urlopen(asked, timeout=timeout_s) as answer:
            changed = parsedate_tz(answer.headers.get("Last-Modified") or "")
            modified = float(mktime_tz(changed)) if changed else 0.0
            return Look(size=int(answer.headers.get("Content-Length") or 0), modified=modified)
    except (OSError, ValueError, OverflowError):
        return Look()


def sha256(url: str, *, timeout_s: float = 30.0) -> str:
    """Hash of a small file; '' where it cannot be had."""
    import urllib.request  # noqa: PLC0415  (see page)

    try:
        with urllib.request.urlopen(_request(url, _HEADERS), timeout=timeout_s) as answer:
            return hashlib.sha256(answer.read()).hexdigest()
    except (OSError, ValueError):
        return ""


def _request(url: str, headers: Mapping[str, str], *, method: str = "GET") -> urllib.request.Request:
    """A request with the credentials of the URL, if any, as a header that does not follow a redirect elsewhere."""
    import urllib.request  # noqa: PLC0415  (see page)

    parts = urlsplit(url)
    userinfo, _, host = parts.netloc.rpartition("@")
    bare = urlunsplit(parts._replace(netloc=host))
    request = urllib.request.Request(bare, headers=dict(headers), method=method)
    if userinfo:
        encoded = base64.b64encode(unquote(userinfo).encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {encoded}")
    return request


def _missing(url: str, code: int) -> CannotBuildError:
    return CannotBuildError(
        f"there is nothing at {redacted(url)} (HTTP {code})",
        hint="is the index right, and does it have this variant?",
        outcome="not_published",
    )


def _failed(url: str, why: str) -> CannotBuildError:
    return CannotBuildError(
        f"cannot reach {redacted(url)}: {why}",
        hint="check the network, or give a mirror with ENVS_INDEX or a directory of wheels with --wheelhouse",
        outcome="download_failed",
    )
