"""Where things come from: one setting, flags before the environment."""

import argparse
from pathlib import Path

import pytest

from envs import settings
from envs.errors import UsageError


def parsed(*argv, environ=None):
    parser = argparse.ArgumentParser()
    settings.add_arguments(parser)
    return settings.from_arguments(parser.parse_args(argv), {"HOME": "/home/someone", **(environ or {})})


def test_default_store_follows_the_cache_directory():
    """The store is cache, so it belongs where the person keeps caches."""
    assert parsed().store == Path("/home/someone/.cache/torch-upgrade-bisect")
    assert parsed(environ={"XDG_CACHE_HOME": "/big"}).store == Path("/big/torch-upgrade-bisect")


def test_flags_win_over_the_environment(tmp_path):
    """Otherwise a variable in a shell profile silently changes what a command line says."""
    environ = {"ENVS_STORE": "/elsewhere", "ENVS_INDEX": "https://old.example/whl", "ENVS_OFFLINE": "0"}

    result = parsed("--store", str(tmp_path), "--index", "https://new.example/whl/", "--offline", environ=environ)

    assert (result.store, result.index, result.offline) == (tmp_path, "https://new.example/whl", True)


def test_index_that_is_a_directory_is_a_wheelhouse(tmp_path):
    """One documented setting takes both: a mirror and a directory of wheels."""
    (tmp_path / "torch-2.11.0-cp311-cp311-linux_x86_64.whl").touch()

    result = parsed(environ={"ENVS_INDEX": str(tmp_path)})

    assert (result.index, result.wheelhouse) == ("", tmp_path)


def test_missing_wheelhouse_is_told():
    """uv would say that no version of torch exists."""
    with pytest.raises(UsageError, match="--wheelhouse: /nowhere is not a directory"):
        parsed("--wheelhouse", "/nowhere")


def test_a_directory_without_wheels_is_told(tmp_path):
    """The search would go to another index than the one that was meant, and find other builds there."""
    with pytest.raises(UsageError, match="--index: there are no wheels in"):
        parsed("--index", str(tmp_path))


@pytest.mark.parametrize(
    ("argv", "environ", "told"),
    [
        ((), {}, ()),
        ((), {"ENVS_BASE_IMAGE": "b:1"}, ()),
        ((), {"ENVS_BACKEND": "container"}, ("--backend", "container")),
        (
            (),
            {"ENVS_BACKEND": "container", "ENVS_BASE_IMAGE": "b:1"},
            ("--backend", "container", "--base-image", "b:1"),
        ),
        (("--backend", "container"), {"ENVS_BASE_IMAGE": "b:1"}, ("--base-image", "b:1")),
        (("--backend", "container", "--base-image", "a:1"), {"ENVS_BASE_IMAGE": "b:1"}, ()),
        (("--backend", "venv"), {"ENVS_BACKEND": "container"}, ()),
    ],
)
def test_a_container_asked_for_by_a_variable_is_spelled_out(argv, environ, told):
    """Resumed or repeated in another shell, the search would go on with runs on the host."""
    parser = argparse.ArgumentParser()
    settings.add_arguments(parser)
    given = parser.parse_args(argv)

    assert settings.spell_out(given, environ) == told
    here = settings.from_arguments(given, {"HOME": "/home/someone"})
    assert here == settings.from_arguments(parser.parse_args([*told, *argv]), {"HOME": "/home/someone"})
