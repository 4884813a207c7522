"""`python -m bisect classify FILE...`: say what a log or a result file shows, for people with a file from a cluster."""

from __future__ import annotations

import codecs
import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from envs.errors import UsageError

from ..classify import Classification, Evidence, classify, conclude, explain
from ..logs.text import read_lines
from ..model import Conclusion, Outcome, OutcomeName
from ..result import HazardsResult, ResultError, TrainResult, parse_hazards, parse_train

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

_CHUNK = 1 << 20
_RESULT_LIMIT = 256 << 20
_BINARY_LIMIT = 64 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options; every one of them is evidence that the file alone does not give."""
    parser.epilog = "example: python -m bisect classify slurm-77.out --rc 1 --threads 3 --control clean --json"
    parser.add_argument("files", nargs="+", metavar="FILE", help="a log (also gzipped), or a result file of a run")
    parser.add_argument("--rc", type=int, default=None, help="exit code of the run (139 or -11 for a signal)")
    parser.add_argument(
        "--env", action="append", default=[], metavar="K=V", help="an environment variable of the run; repeatable"
    )
    parser.add_argument("--threads", type=int, default=None, metavar="N", help="worker threads of the run")
    parser.add_argument(
        "--control", choices=("clean", "failed"), default="", help="what the same run with one thread did"
    )
    parser.add_argument("--expect", default="", metavar="torch=VERSION", help="the torch that was asked for")
    names = " ".join(name.value for name in OutcomeName)
    hunted = f"the failure that is searched for (default: fx_flag_race): any, or one of {names}"
    parser.add_argument("--hunt", default="fx_flag_race", metavar="CLASS", help=hunted)
    parser.add_argument("--json", action="store_true", help="a JSON list on stdout instead of one paragraph a file")


def run(args: argparse.Namespace, *, stdout: TextIO, stderr: TextIO) -> int:  # noqa: ARG001  (the interface of commands)
    """Classify every file; 0 when all could be read."""
    hunted = _hunted(args.hunt)
    if args.threads is not None and args.threads < 1:
        raise UsageError(f"--threads is {args.threads}", hint="the number of worker threads of the run, 1 or more")
    rows = [(name, classify(_evidence(name, args))) for name in args.files]
    if args.json:
        json.dump([_row(name, found, conclude(found, hunted)) for name, found in rows], stdout, indent=2)
        stdout.write("\n")
    else:
        stdout.writelines(f"{name}: {explain(found, hunted)}\n" for name, found in rows)
    return 0


def _row(name: str, found: Classification, conclusion: Conclusion) -> dict[str, object]:
    return {
        "file": name,
        "class": str(found.outcome),
        "evidence": list(found.evidence),
        "conclusion": conclusion.value,
        "secondary": [str(outcome) for outcome in found.secondary],
        "advice": found.advice,
        "detail": found.detail,
        "flags": list(found.flags),
        "threads": found.num_threads,
    }


def _hunted(text: str) -> Outcome | None:
    if text == "any":
        return None
    try:
        return Outcome.parse(text)
    except ValueError as error:
        known = ", ".join(name.value for name in OutcomeName)
        raise UsageError(f"--hunt {text!r} is no outcome", hint=f"any, or one of {known}") from error


def _evidence(name: str, args: argparse.Namespace) -> Evidence:
    path = Path(name)
    result, damage = _result(path)
    return Evidence(
        lines=() if result is not None else read_lines(_chunks(path)),
        result=result,
        damage=damage,
        returncode=args.rc,
        variables=dict(_variable(pair) for pair in args.env),
        threads=args.threads,
        control=args.control,
        expected_torch=_expected(args.expect),
    )


def _variable(pair: str) -> tuple[str, str]:
    key, equals, value = pair.partition("=")
    if not equals or not key:
        raise UsageError(f"--env {pair!r} is not K=V", hint="for example --env TORCH_COMPILE_DISABLE=1")
    return key, value


def _expected(text: str) -> str:
    if not text:
        return ""
    name, equals, version = text.partition("=")
    if name != "torch" or not equals or not version.strip("="):
        raise UsageError(f"--expect {text!r} is not torch=VERSION", hint="for example --expect torch=2.11.0+cu130")
    return version.strip("=")


def _result(path: Path) -> tuple[TrainResult | HazardsResult | None, str]:
    """The result a file holds and why it cannot be used; neither for a log. A damaged one is read as a log as well."""
    head = next(_chunks(path), "").lstrip()
    if not head.startswith("{") or '"schema"' not in head[:2000] or path.stat().st_size > _RESULT_LIMIT:
        return None, ""
    text = "".join(_chunks(path))
    parse = parse_hazards if '"hazards"' in head[:2000] else parse_train
    try:
        return parse(text), ""
    except ResultError as error:
        return None, str(error)


def _chunks(path: Path) -> Iterator[str]:
    """The text of a file in pieces of a megabyte; bytes that are no text become replacement characters."""
    try:
        with path.open("rb") as raw:
            start = raw.read(4)
            raw.seek(0)
            source = gzip.GzipFile(fileobj=raw) if start.startswith(b"\x1f\x8b") else raw
            wide = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            binary = 0
            decoder = codecs.getincrementaldecoder("utf-16" if wide else "utf-8-sig")(errors="replace")
            while piece := source.read(_CHUNK):
                text = decoder.decode(piece)
                yield text
                binary += len(piece) if text.count("\ufffd") * 4 > len(text) else 0
                if binary > _BINARY_LIMIT:  # a core dump: what follows would be no log either
                    return
            yield decoder.decode(b"", final=True)
    except FileNotFoundError as error:
        raise UsageError(f"no such file: {path}", hint="give the path of a log or a result file") from error
    except (gzip.BadGzipFile, EOFError) as error:
        raise UsageError(f"{path} is not a whole gzip file: {error}") from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint="give a log or a result.json") from error
