"""A whole search through the command line: a local index, real uv, real environments, a real command."""

import json
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest

from .stub_index import OURS, Stub, served

ROOT = Path(__file__).parent.parent.parent
FIRST = date(2026, 6, 1)
pytestmark = [pytest.mark.uv, pytest.mark.socket, pytest.mark.subprocess]

HOLES, FOREIGN, CULPRIT = {5, 20, 21, 22, 47}, {9: "cp311-cp311-win_amd64", 30: "cp312-cp312-manylinux_2_28_x86_64"}, 41
EQUAL, NO_IMPORT, NO_INSTALL = 36, 39, 34


def version(day):
    return f"2.13.0.dev{FIRST + timedelta(days=day):%Y%m%d}"


def stubs(*, culprit=CULPRIT, days=66):
    """60 nightlies in 66 days, with everything that goes wrong with nightlies."""
    for day in range(days):
        if day in HOLES:
            continue
        commit = f"{day - 1 if day == EQUAL else day:040x}"
        code = f"answer = {int(day >= culprit)}"
        if day == NO_IMPORT:
            code = "raise ImportError('undefined symbol: _ZN3c10')"
        yield Stub(
            version=f"{version(day)}+cu130",
            commit=commit,
            code=code,
            tags=FOREIGN.get(day, OURS),
            broken=day == NO_INSTALL,
        )


def run(tmp_path, *words, cwd=ROOT):
    argv = [sys.executable, "-m", "bisect", *words]
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=600, check=False)


def nightlies(tmp_path, url, *words, command=("python", "-c", "import sys, torch; sys.exit(torch.answer)")):
    environment = tmp_path / "bare.toml"
    environment.write_text('summary = "torch alone"\ncuda = "cu130"\nchannel = "nightly"\npython = "3.11"\n')
    options = ["--index", url, "--env", str(environment), "--store", str(tmp_path / "store"), "--probe", "command"]
    return run(tmp_path, "torch-nightlies", *options, *words, "--", *command)


def journal(out):
    return [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]


def test_sixty_nightlies_with_everything_that_goes_wrong(tmp_path):
    """The command the user asked for, with nothing but the wheels' contents faked."""
    with served(tmp_path / "index", list(stubs())) as url:
        out = tmp_path / "out"
        done = nightlies(tmp_path, url, "--good", version(0), "--bad", "newest", "--json", "--out", str(out))

    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert (verdict["schema"], verdict["kind"], verdict["verdict"]) == (1, "torch-nightlies", "found")
    assert verdict["direction"] == "regression"
    assert (verdict["last_good"], verdict["first_bad"]) == (version(CULPRIT - 1), version(CULPRIT))
    assert verdict["confidence"] >= 0.95
    assert verdict["git_range"] == f"{CULPRIT - 1:040x}..{CULPRIT:040x}"
    reasons = {item["build"]: item["reason"] for item in verdict["excluded"]}
    assert reasons["2026-06-06"] == "not published"
    assert reasons["2026-06-21 to 2026-06-23"] == "not published"
    assert reasons[version(30)] == "no cp311 wheel"
    assert "only win_amd64" in reasons[version(9)]
    skipped = {item["candidate"] for item in verdict["skipped"]}
    assert skipped <= {version(NO_IMPORT), version(NO_INSTALL)}
    assert "Where the change is" in (out / "report.html").read_text()
    built = [entry["candidate"] for entry in journal(out) if entry.get("event") == "built"]
    assert len(built) == len(set(built))


def test_a_culprit_hidden_by_builds_that_cannot_be_tested_is_a_range(tmp_path):
    """Right after a build that cannot be imported, a single first bad would be a guess."""
    few = [
        Stub(version=f"{version(day)}+cu130", commit=f"{day:040x}", code=code)
        for day, code in enumerate(
            ["answer = 0", "answer = 0", "raise ImportError('gone')", "answer = 1", "answer = 1"]
        )
    ]
    with served(tmp_path / "index", few) as url:
        out = str(tmp_path / "out")
        done = nightlies(tmp_path, url, "--good", "oldest", "--bad", "newest", "--json", "--out", out)

    verdict = json.loads(done.stdout)
    assert (done.returncode, verdict["verdict"]) == (4, "narrowed")
    assert verdict["suspects"] == [version(2), version(3)]
    assert [item["outcome"] for item in verdict["skipped"]] == ["import_broken"]
    assert "undefined" in verdict["skipped"][0]["reason"] or "gone" in verdict["skipped"][0]["reason"]
