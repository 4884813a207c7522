"""The option names of the commands are a promise: scripts on clusters are built on them."""

import argparse
import importlib
import json
from bisect.cli import COMMANDS, split_rest
from bisect.commands.search_options import asked
from bisect.identity import digests_of
from dataclasses import replace

import pytest

from envs.errors import UsageError
from envs.spec import load

from .fake_python import GOLDEN

FROZEN = json.loads((GOLDEN / "options.json").read_text())


@pytest.mark.parametrize("command", FROZEN)
def test_no_option_is_renamed_or_lost(command):
    """One that goes missing breaks somebody's script; a new one may be added to `golden/options.json`."""
    module = importlib.import_module(f"bisect.commands.{COMMANDS[command][0]}")
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    names = {name for action in parser._actions for name in (action.option_strings or [action.dest])}

    assert set(FROZEN[command]) - names == set()


def test_what_follows_two_dashes_is_left_alone():
    """The command of a probe may have options of its own, even ones that we have too."""
    assert split_rest(["x", "--json", "--", "cmd", "--", "--json"]) == (["x", "--json"], ("cmd", "--", "--json"))
    assert split_rest(["x"]) == (["x"], ())


def test_an_option_that_older_journals_lack_does_not_end_their_searches(tmp_path):
    """After an update `resume` of a search of a week would say that it is another one."""
    module = importlib.import_module(f"bisect.commands.{COMMANDS['torch-releases'][0]}")
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)

    def identity(*words):
        args = parser.parse_args(["--good", "2.15.0", "--bad", "2.8.0", *words])
        return asked(argparse.Namespace(**vars(args), rest=(), argv=())).identity

    def header(found):
        known = {name: value for name, value in found.options.items() if name != "pairs"}
        return {"command": "torch-releases", "identity": known}

    speed = ("--for", "throughput")
    identity(*speed).refuse_another(header(identity(*speed)), "torch-releases", tmp_path)
    with pytest.raises(UsageError, match="--pairs differs"):
        identity(*speed, "--pairs", "together").refuse_another(header(identity(*speed)), "torch-releases", tmp_path)
    found = identity("--good", "2.14.0", "--for", "fx_flag_race")
    with pytest.raises(UsageError, match="--good, --for differ"):
        found.refuse_another(header(identity(*speed)), "torch-releases", tmp_path)


@pytest.mark.parametrize("command", ["torch-nightlies", "torch-releases", "releases", "packages"])
def test_the_least_of_keep_stands_in_its_help(command):
    """The minimum was found out by being refused."""
    module = importlib.import_module(f"bisect.commands.{COMMANDS[command][0]}")
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    ends = ["gadget", "--env", "cu130"] if command == "releases" else []
    words = [*ends, "--good", "2.15.0", "--bad", "2.8.0", "--keep", "1"]

    assert "at least 2" in next(action.help for action in parser._actions if action.dest == "keep")
    with pytest.raises(UsageError, match="--keep 1: it must be at least 2"):
        asked(argparse.Namespace(**vars(parser.parse_args(words)), rest=(), argv=()))


@pytest.mark.parametrize("command", ["torch-nightlies", "torch-releases", "releases", "packages"])
def test_a_workaround_reaches_the_hazards_that_are_probed_under_it(command):
    """`2.13.0 leaks` would be said of the build alone although the question was what the workaround closes."""
    module = importlib.import_module(f"bisect.commands.{COMMANDS[command][0]}")
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    words = ["gadget", "--env", "cu130"] if command == "releases" else []
    words += ["--good", "2.14.0", "--bad", "2.13.0", "--probe", "hazards", "--for", "fx_flag_trace"]

    plain, under = (
        asked(argparse.Namespace(**vars(parser.parse_args([*words, *more])), rest=(), argv=()))
        for more in ([], ["--workaround", "thread-local-flag"])
    )

    assert plain.request.arguments == ("--only", "fx_flag_trace")
    assert under.request.arguments == ("--only", "fx_flag_trace", "--workaround", "thread-local-flag")
    assert under.question.words == "hazard fx_flag_trace under thread-local-flag"


def test_what_a_definition_says_is_kept_without_its_values():
    """A journal is pasted into issues; a token in a variable, or in an index's URL, must not be in it."""
    said = replace(load("cu130"), environment=(("HF_TOKEN", "hunter2"),))

    assert "hunter2" not in json.dumps(digests_of(said))
    assert digests_of(said).keys() - digests_of(load("cu130")).keys() == {"environment"}
    assert digests_of(replace(said, summary="other words")) == digests_of(said)
    assert digests_of(replace(said, environment=(("HF_TOKEN", "hunter3"),))) != digests_of(said)
