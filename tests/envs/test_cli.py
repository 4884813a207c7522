"""The command line that scripts and clusters build on: data on stdout, one line and a hint for what is wrong."""

import json
from pathlib import Path

import pytest

from envs import cli, settings, spec
from envs.store import Store

from . import stubs

VERSION = "2.12.0.dev20260215"


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("ENVS_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))

    def call(*argv):
        code = cli.main(argv)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def index(tmp_path):
    index = stubs.Index(tmp_path / "index")
    stubs.torch(index.project("torch"), f"{VERSION}+cu130")
    stubs.torch(index.project("torch"), "2.12.0.dev20260216+cu130")
    stubs.wheel(index.project("leaf"), "leaf", "1.0")
    with stubs.serving(index):
        yield index


@pytest.fixture
def stub(tmp_path):
    path = tmp_path / "stub.toml"
    path.write_text(
        f'summary = "a stub"\ntorch = "{VERSION}"\ncuda = "cu130"\nchannel = "nightly"\n'
        f'python = "{stubs.PYTHON}"\nrequirements = ["leaf"]\n'
    )
    return str(path)


def test_no_command_is_a_usage_error(run):
    """Without a command there is nothing to answer."""
    with pytest.raises(SystemExit) as caught:
        run()

    assert caught.value.code == 2


@pytest.mark.parametrize("command", ["list", "lock", "build", "path", "verify", "prune"])
def test_every_command_has_the_promised_options(command):
    """Scripts build on these; one that goes missing breaks them."""
    parser = cli.parser()
    sub = next(action for action in parser._actions if action.choices).choices[command]
    options = {option for action in sub._actions for option in action.option_strings}

    assert {"--json", "--store", "--index", "--wheelhouse", "--default-index", "--offline"} <= options


def _subparsers(parser):
    for action in parser._actions:
        if isinstance(action.choices, dict):
            yield from action.choices.items()


def test_every_command_that_promises_json_takes_it():
    """`cache` has commands of its own; one of them would print a table where a script expects data."""
    leaves = {name: sub for name, sub in _subparsers(cli.parser()) if not dict(_subparsers(sub))}
    leaves |= {f"cache {name}": sub for name, sub in _subparsers(dict(_subparsers(cli.parser()))["cache"])}

    assert {"cache save", "cache restore", "cache list", "base-image", "diff"} <= leaves.keys()
    assert [name for name, sub in leaves.items() if "--json" not in sub.format_help()] == []
    assert "--json" in dict(_subparsers(cli.parser()))["cache"].format_help()


def test_a_misspelled_name_is_told_the_near_ones_with_a_history_too(run):
    """`sglang-residue` alone is no definition; the one that is meant would not be among the hints."""
    code, _, err = run("path", "sglang-residue")

    assert code == 2
    assert "cu128+sglang-residue" in err
    assert "cu128+sglang-residue" in run("path", "nope")[2]


@pytest.mark.subprocess
def test_list(run):
    """Every shipped definition with what is known of it."""
    code, out, _ = run("list", "--json")
    rows = {row["name"]: row for row in json.loads(out)["definitions"]}

    assert code == 0
    assert rows.keys() == {definition.name for definition in spec.shipped()}
    assert rows["cu130"]["torch"] == "2.11.0"
    assert rows["cu130"]["state"] == "locked"
    assert rows["nightly"]["state"] == "not locked"


@pytest.mark.subprocess
def test_list_for_people(run):
    """A table with a line per definition."""
    code, out, _ = run("list")

    assert code == 0
    assert "cu130-latest  2.14.1" in out


@pytest.mark.subprocess
def test_wrong_input_is_one_line_and_a_hint(run):
    """No traceback, exit code 2, nothing on stdout."""
    assert run("build", "cu131") == (
        2,
        "",
        "error: no environment definition named 'cu131'\nhint: did you mean cu132 or cu130?\n",
    )


@pytest.mark.subprocess
def test_path_of_what_is_not_built(run):
    """A script must not go on with an empty path."""
    code, out, err = run("path", "cu130")

    assert (code, out) == (5, "")
    assert "cu130 is not built" in err
    assert "python -m envs build cu130" in err


def test_committed_locks_are_fresh(run):
    """What CI asks: does every committed lock belong to its definition?"""
    names = [definition.name for definition in spec.shipped() if definition.channel is spec.Channel.RELEASE]

    code, out, _ = run("lock", "--check", *names)

    assert code == 0
    assert [Path(line).name for line in out.splitlines()] == [f"pylock.{name}.toml" for name in names]


@pytest.mark.uv
def test_build_path_verify_prune(run, index, stub, tmp_path):
    """The life of an environment from the command line."""
    places = ("--index", index.url, "--default-index", index.url)

    code, out, err = run("build", stub, *places)
    path = Path(out.strip())
    assert code == 0
    assert path.parent.parent == tmp_path / "store"
    assert f"torch {VERSION}+cu130" in err

    code, out, _ = run("build", stub, "--json", *places)
    built = json.loads(out)
    assert (code, built["cached"], built["path"]) == (0, True, str(path))
    assert built["fingerprint"]["torch"] == f"{VERSION}+cu130"

    assert run("path", "stub", *places)[:2] == (0, f"{path}\n")
    assert json.loads(run("path", "stub", "--json", *places)[1])["python"] == built["python"]

    code, out, _ = run("verify", "stub", "--json")
    assert (code, json.loads(out)["ok"]) == (0, True)

    (path / "venv" / "bin" / "planted").write_text("")
    code, out, _ = run("verify", "stub", "--json")
    assert code == 3
    planted = {"path": "bin/planted", "owners": [], "detail": "", "fault": True, "expected": False}
    assert json.loads(out)["unowned"] == [planted]
    code, out, _ = run("verify", str(path / "venv"))
    assert code == 3
    assert "NOT as recorded: 1 finding" in out

    assert run("diff", "stub", str(path / "venv"))[:2] == (
        0,
        f"stub and {path / 'venv'} are the same environment: there is nothing to compare\n",
    )

    assert "would remove stub" in run("prune", "--all", "--dry-run")[1]
    assert path.exists()
    assert json.loads(run("prune", "--max-size", "1T", "--json")[1])["removed"] == []
    assert [row["name"] for row in json.loads(run("prune", "--max-size", "1", "--json")[1])["removed"]] == ["stub"]
    assert not path.exists()
    assert Store(tmp_path / "store").entries() == ()


@pytest.mark.uv
def test_another_torch_and_a_date(run, index, stub):
    """The same environment around another build."""
    places = ("--index", index.url, "--default-index", index.url, "--json")

    by_date = json.loads(run("build", stub, "--date", "20260216", *places)[1])
    by_version = json.loads(run("build", stub, "--torch", "2.12.0.dev20260216", *places)[1])

    assert by_date["fingerprint"]["torch"] == "2.12.0.dev20260216+cu130"
    assert by_version["digest"] == by_date["digest"]
    assert by_version["name"].startswith("torch-2.12.0.dev20260216-cu130")


@pytest.mark.uv
def test_dry_run_changes_nothing(run, index, stub, tmp_path):
    """Sizes before anything is built."""
    code, out, _ = run("build", stub, "--dry-run", "--json", "--index", index.url, "--default-index", index.url)
    answer = json.loads(out)

    assert (code, answer["built"]) == (0, False)
    assert answer["disk_bytes"] > answer["download_bytes"] >= 0
    assert not (tmp_path / "store" / "environments").exists()


@pytest.mark.uv
def test_lock_into_a_file(run, index, stub, tmp_path):
    """A definition of one's own is locked where one says."""
    target = tmp_path / "pylock.stub.toml"

    code, out, _ = run("lock", stub, "--output", str(target), "--index", index.url, "--default-index", index.url)

    assert (code, out) == (0, f"{target}\n")
    assert f'version = "{VERSION}+cu130"' in target.read_text()


def test_sizes(run):
    """A mistyped size must not remove everything."""
    assert [settings.parse_size(text) for text in ("50G", "1.5GB", "200m", "7", "2K")] == [
        50 * 10**9,
        1_500_000_000,
        200 * 10**6,
        7,
        2000,
    ]
    for text in ("", "G", "50X", "-1G", "lots"):
        assert run("prune", f"--max-size={text}")[0] == 2, text


@pytest.mark.uv
def test_a_lock_that_cannot_be_written(run, index, stub, tmp_path):
    """A mistyped --output would be a traceback."""
    (tmp_path / "file").write_text("")
    target = tmp_path / "file" / "pylock.toml"
    code, _, err = run("lock", stub, "--output", str(target), "--index", index.url, "--default-index", index.url)

    assert (code, err.splitlines()[-1]) == (2, "hint: choose another --output")
