"""A real Slurm for the modules that ask for one."""

from __future__ import annotations

import os

import pytest

from .real_slurm import missing, slurm


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The environment of a client of a Slurm that lives as long as the module; skipped where none can be started."""
    why = missing()
    if why:
        pytest.skip(why)
    with slurm(tmp_path_factory.mktemp("cluster") / "slurm") as variables:
        yield {**os.environ, **variables}


@pytest.fixture
def slurm_here(cluster, monkeypatch):
    """The same for this process."""
    for name in ("SLURM_CONF", "MUNGE_SOCKET"):
        monkeypatch.setenv(name, cluster[name])
    return cluster
