"""`python -m bisect classify FILE...`: say what a log or a result file shows, for people with a file from a cluster."""

from __future__ import annotations

import codecs
import difflib
import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from packaging.version import InvalidVersion, Version

from envs.errors import UsageError

from ..classify import Classification, Evidence, classify_for
from ..classify.conclusion import VOID, advise, conclude, conclude_hazard, explain
from ..classify.result_findings import hazard_outcome
from ..logs.text import read_lines
from ..model import Conclusion, Outcome, OutcomeName
from ..result import HazardsResult, TrainResult
from ..result_file import ResultError, parse_hazards, parse_train
from .search_options import HAZARDS, THROUGHPUT

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

_CHUNK = 1 << 20
_NO_HAZARDS = (
    "Only the probe of a hazard shows it: run python -m bisect hazards ENV --only {0}, and classify its result."
)
_THREADS = (
    "The number of worker threads is neither given (--threads N) nor in the log: with 1 this is {}, with several {}."
)
_SEVERAL = 3
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
    threads = "worker threads of the run: without it a race can often be neither told nor ruled out from a log"
    parser.add_argument("--threads", type=int, default=None, metavar="N", help=threads)
    parser.add_argument(
        "--control", choices=("clean", "failed"), default="", help="what the same run with one thread did"
    )
    parser.add_argument("--expect", default="", metavar="torch=VERSION", help="the torch that was asked for")
    names = " ".join(name.value for name in OutcomeName)
    hunted = f"what is searched for (default: fx_flag_race): any, one of {names}, or a hazard: {' '.join(HAZARDS)}"
    parser.add_argument("--hunt", default="fx_flag_race", metavar="CLASS", help=hunted)
    parser.add_argument("--json", action="store_true", help="a JSON list on stdout instead of one paragraph a file")


def run(args: argparse.Namespace, *, stdout: TextIO, stderr: TextIO) -> int:  # noqa: ARG001  (the interface of commands)
    """Classify every file; 0 when all could be read."""
    hunted = _hunted(args.hunt)
    if args.threads is not None and args.threads < 1:
        raise UsageError(f"--threads is {args.threads}", hint="the number of worker threads of the run, 1 or more")
    answers = [_answer(_evidence(name, args), hunted) for name in args.files]
    if args.json:
        json.dump([_row(name, answer) for name, answer in zip(args.files, answers, strict=True)], stdout, indent=2)
        stdout.write("\n")
    else:
        asked = "any failure" if hunted is None else str(hunted)
        told = (explain(found, hunted=asked, conclusion=said, advice=advice) for found, said, advice in answers)
        stdout.writelines(f"{name}: {text}\n" for name, text in zip(args.files, told, strict=True))
    return 0


def _answer(evidence: Evidence, hunted: Outcome | str | None) -> tuple[Classification, Conclusion, str]:
    """What happened, what a search for the outcome, the hazard (a string) or any failure concludes, and what to do."""
    found, one, several = classify_for(evidence, (evidence.threads, 1, _SEVERAL))
    if isinstance(evidence.result, HazardsResult) and str(hunted) in HAZARDS:
        return _hazard_answer(found, evidence.result, str(hunted))
    if isinstance(hunted, str):
        return found, Conclusion.SKIP, _NO_HAZARDS.format(hunted)
    told = () if found.num_threads is not None else _depends_on_threads(one, several, hunted)
    return found, conclude(found, hunted), " ".join((*told, advise(found, hunted)))


def _depends_on_threads(one: Classification, several: Classification, hunted: Outcome | None) -> Iterator[str]:
    """Says so where the same log means another thing for one thread than for several."""
    concluded = [conclude(found, hunted) for found in (one, several)]
    quiet = one.outcome.name is OutcomeName.TOO_FEW_THREADS
    if concluded[0] is not concluded[1] or (one.outcome != several.outcome and not quiet):
        pairs = zip((one, several), concluded, strict=True)
        yield _THREADS.format(*(f"{found.outcome} ({said.value.upper()})" for found, said in pairs))


def _hazard_answer(found: Classification, result: HazardsResult, name: str) -> tuple[Classification, Conclusion, str]:
    answer = result.answer(name)
    shown = replace(found, evidence=(f"{name}: {answer.value if answer else 'not tested'}", *found.evidence))
    if found.outcome.name in VOID:
        return shown, Conclusion.SKIP, found.advice
    conclusion = conclude_hazard(answer)
    return shown, conclusion, advise(found, hazard_outcome(name)) if conclusion is Conclusion.BAD else found.advice


def _row(name: str, answer: tuple[Classification, Conclusion, str]) -> dict[str, object]:
    found, conclusion, advice = answer
    return {
        "file": name,
        "class": str(found.outcome),
        "evidence": list(found.evidence),
        "conclusion": conclusion.value,
        "secondary": [str(outcome) for outcome in found.secondary],
        "advice": advice,
        "detail": found.detail,
        "flags": list(found.flags),
        "threads": found.num_threads,
    }


def _hunted(text: str) -> Outcome | str | None:
    """The outcome or hazard named, as a search's `--for` takes them; None for any failure."""
    if text == "any":
        return None
    if text == THROUGHPUT:
        told = "use --for throughput of a search, which compares runs"
        raise UsageError("one run shows no change of throughput", hint=told)
    try:
        return Outcome.parse(text)
    except ValueError as error:
        if text in HAZARDS:
            return text
        known = ("any", *(name.value for name in OutcomeName), *HAZARDS)
        near = ", ".join(difflib.get_close_matches(text, known, n=3, cutoff=0.5) or known)
        raise UsageError(f"--hunt {text!r} is no outcome and no hazard", hint=f"near ones: {near}") from error


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
    try:
        if name == "torch" and equals:
            return str(Version(version.removeprefix("=")))
    except InvalidVersion:
        pass
    raise UsageError(f"--expect {text!r} is not torch=VERSION", hint="for example --expect torch=2.11.0+cu130")


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
