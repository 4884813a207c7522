"""An existing image as an environment, on a real engine: asked, recorded by digest, compared, never changed."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request

import pytest
from uv import find_uv_bin

from . import engines, stubs

pytestmark = [pytest.mark.container, pytest.mark.uv]

SITE = "/usr/local/lib/python3.11/dist-packages"
WHEEL = "cp311-cp311-manylinux_2_17_x86_64"
LOCAL = "local/stub-torch:1"


@pytest.fixture(scope="module")
def image(environ, small_image, tmp_path_factory):
    """The id of an image with a torch of its own, a variable that torch reads, and a file that nobody installed."""
    directory = tmp_path_factory.mktemp("wheels")
    wheels = [
        stubs.torch(directory, "2.11.0", says="2.11.0+cu130", tag=WHEEL),
        stubs.wheel(directory, "nvidia-cutlass-dsl", "4.5.2"),
    ]
    extra = [(f"{SITE}/stray.py", "left = True\n")]
    engine = engines.container.connect(environ)
    client = engine._client
    yield engines.with_files(
        client, small_image, LOCAL, wheels, SITE, extra=extra, changes=["ENV LD_LIBRARY_PATH=/opt/cuda/lib"]
    )
    client.remove_image(LOCAL, force=True)
    engine.close()


@pytest.fixture
def here(environ, tmp_path):
    """The engine's variables with a store of the test's own."""
    return {**environ, "ENVS_STORE": str(tmp_path / "store")}


def _definition(directory, image, **keys):
    path = directory / "found.toml"
    lines = [f"{key} = {json.dumps(value)}" for key, value in {"summary": "s", "image": image, **keys}.items()]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def _built(tool, here, *argv):
    return json.loads(tool(here, "envs", "build", *argv, "--json").stdout)


def test_an_image_from_a_registry_is_recorded_by_digest(tool, here, image, engine, tmp_path):
    """A tag moves: nobody could fetch the bytes again that a report speaks of."""
    with engines.registry(tmp_path) as registry:
        if registry is None:
            pytest.skip("docker-registry is not installed")
        name = f"{registry}/stub/torch"
        engine._client.tag(LOCAL, name, "1")
        engine._client.push(name, "1")
        engine._client.remove_image(f"{name}:1")
        first = _built(tool, here, _definition(tmp_path, f"{name}:1"))
        digest = _digest(registry)
        again = _built(tool, here, _definition(tmp_path, f"{name}@{digest}"))
        engine._client.remove_image(f"{name}:1")

    assert (first["fingerprint"]["torch"], first["python"]) == ("2.11.0+cu130", "/usr/bin/python3")
    assert first["image_digests"] == [f"{name}@{digest}"]
    assert (again["cached"], again["digest"], first["image"]) == (True, first["digest"], image)
    told = json.loads((tmp_path / "store" / "environments" / first["digest"][:24] / "environment.json").read_text())
    assert told["image_digests"] == [f"{name}@{digest}"]


def _digest(registry):
    request = urllib.request.Request(
        f"http://{registry}/v2/stub/torch/manifests/1",
        headers={"Accept": "application/vnd.docker.distribution.manifest.v2+json"},
    )
    with urllib.request.urlopen(request) as answer:
        return answer.headers["Docker-Content-Digest"]


def test_a_saved_image_is_loaded_once(tool, here, image, engine, tmp_path):
    """An image of 20 GB would be loaded again for every run of a search."""
    archive = tmp_path / "saved.tar"
    with archive.open("wb") as file:
        file.writelines(engine._client.get_image(image))
    built = _built(tool, here, _definition(tmp_path, "saved.tar"))
    archive_status = archive.stat()
    archive.write_bytes(b"x" * archive_status.st_size)
    os.utime(archive, ns=(archive_status.st_atime_ns, archive_status.st_mtime_ns))
    again = _built(tool, here, _definition(tmp_path, "saved.tar"))

    assert (built["image"], built["image_digests"]) == (image, [])
    assert again["cached"]


def test_an_image_is_compared_with_a_virtual_environment(tool, here, image, tmp_path):
    """The first question to an image is what it has that the cluster's environment has not."""
    wheel = stubs.torch(tmp_path, "2.10.0", says="2.10.0+cu128", cuda="12.8", tag="py3-none-any")
    for argv in (["venv", "-q", tmp_path / "venv"], ["pip", "install", "-q", "-p", tmp_path / "venv", wheel]):
        subprocess.run([find_uv_bin(), *argv], check=True, capture_output=True, timeout=120)
    _built(tool, here, _definition(tmp_path, LOCAL))

    found = json.loads(tool(here, "envs", "diff", str(tmp_path / "venv"), "found", "--json").stdout)
    verified = json.loads(tool(here, "envs", "verify", "found", "--json", code=3).stdout)

    different = {(item["kind"], item["name"]): (item["before"], item["after"]) for item in found["differences"]}
    assert different["torch", "version"] == ("2.10.0+cu128", "2.11.0+cu130")
    assert different["package", "nvidia-cutlass-dsl"] == ("", "4.5.2")
    assert different["variable", "LD_LIBRARY_PATH"] == ("", "/opt/cuda/lib")
    assert [item["path"] for item in verified["unowned"]] == ["lib/python3.11/site-packages/stray.py"]


def test_another_torch_than_the_images_is_not_believed(tool, here, image, tmp_path):
    """A definition that speaks of another torch would be benchmarked under a wrong name."""
    refused = tool(here, "envs", "build", _definition(tmp_path, LOCAL, torch="2.12.0"), code=5)

    assert "holds torch 2.11.0+cu130, the definition says 2.12.0" in refused.stderr
    assert not list((tmp_path / "store" / "environments").glob("*"))


def test_a_torch_that_is_asked_for_is_built_beside_the_images(tool, here, image, tmp_path):
    """The image's own torch would be overwritten, and the question was what the rest of the image does to another."""
    stubs.torch(tmp_path / "wheels", "2.10.0", says="2.10.0+cu128", cuda="12.8", tag=WHEEL)
    definition = _definition(tmp_path, LOCAL, python="3.11")

    other = _built(
        tool, here, definition, "--torch", "2.10.0", "--cuda", "cu128", "--wheelhouse", str(tmp_path / "wheels")
    )
    own = _built(tool, here, definition)

    assert (other["fingerprint"]["torch"], own["fingerprint"]["torch"]) == ("2.10.0+cu128", "2.11.0+cu130")
    assert other["image"] == own["image"] == image
    assert other["python"].startswith(str(tmp_path / "store"))
