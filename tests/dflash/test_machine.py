"""What a run says of the machine and of its own isolation."""

from __future__ import annotations

import importlib

import pytest

from dflash import machine


@pytest.mark.torch
def test_the_directory_that_torch_makes_is_not_somebody_elses(tmp_path, monkeypatch):
    """Every run of torch 2.7 and 2.8 would be thrown away as not isolated, the good ones as well."""
    module = importlib.import_module("torch.distributed.nn.jit.instantiator")
    monkeypatch.syspath_prepend(str(tmp_path))
    outside = machine.describe([])["sys_path_outside"]

    assert str(tmp_path.resolve()) in outside
    assert getattr(module, "INSTANTIATED_TEMPLATE_DIR_PATH", "") not in outside
