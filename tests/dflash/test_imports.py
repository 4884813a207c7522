"""Importing a package before training: what it changed in torch, the configuration and the environment is listed."""

from __future__ import annotations

import os
import sys

import pytest
import torch
import torch._dynamo.config
import torch._inductor.config

from dflash import imports

PACKAGE = """
import os
import torch
import torch._dynamo.config

torch._dynamo.config.recompile_limit = 777
os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "8"
os.environ["PLANTED_API_KEY"] = "hunter2"


def softmax(*args, **kwargs):
    return None


torch.nn.functional.softmax = softmax
torch.Tensor.__planted__ = softmax
"""


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A package that does what serving packages do, undone afterwards."""
    (tmp_path / "planted_server.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(tmp_path)
    limit = torch._dynamo.config.recompile_limit
    monkeypatch.setattr(torch.nn.functional, "softmax", torch.nn.functional.softmax)
    for name in ("CUDA_DEVICE_MAX_CONNECTIONS", "PLANTED_API_KEY"):
        monkeypatch.setenv(name, "before")
    yield "planted_server"
    torch._dynamo.config.recompile_limit = limit
    sys.modules.pop("planted_server", None)
    if hasattr(torch.Tensor, "__planted__"):
        del torch.Tensor.__planted__


def test_what_an_import_changed_is_listed(planted):
    """D15: patched torch internals are evidence of contamination even when the outcome is the same."""
    (found,) = imports.load([planted])

    lines = "\n".join(found["changes"])
    assert found["package"] == planted
    assert "torch._dynamo.config.recompile_limit" in lines
    assert "-> 777" in lines
    assert "torch.nn.functional.softmax replaced by one of planted_server" in lines
    assert "torch.Tensor.__planted__ added by planted_server" in lines
    assert "environ CUDA_DEVICE_MAX_CONNECTIONS: before -> 8" in lines


def test_a_secret_that_an_import_sets_is_kept_out(planted):
    """The list goes into result files and reports."""
    (found,) = imports.load([planted])

    assert os.environ["PLANTED_API_KEY"] == "hunter2"
    assert not any("hunter2" in line for line in found["changes"])


def test_an_innocent_import_changes_nothing():
    """A list full of noise would hide the one line that matters."""
    sys.modules.pop("colorsys", None)

    assert imports.load(["colorsys"]) == [{"package": "colorsys", "changes": []}]


def test_a_package_that_is_not_there_fails_the_run():
    """Training without it would be reported as training with it."""
    with pytest.raises(ModuleNotFoundError):
        imports.load(["no_such_package_at_all"])
