"""Questions to the machine, and to indexes, that can go wrong."""

import http.server
import threading

import pytest

from envs import fetch, interpreter, machine
from envs.backend import Gpu
from envs.errors import CannotBuildError, CannotRunError


def test_answer_of_nvidia_smi():
    """Names contain commas and spaces; a driver without a GPU answers a sentence."""
    text = "NVIDIA H100 80GB HBM3, 9.0\nTesla V100-SXM2-16GB, 7.0\nNo devices were found\n"

    assert machine.parse_gpus(text) == (
        Gpu(name="NVIDIA H100 80GB HBM3", capability=(9, 0)),
        Gpu(name="Tesla V100-SXM2-16GB", capability=(7, 0)),
    )


@pytest.mark.subprocess
def test_driver_and_gpus_from_nvidia_smi(tmp_path, monkeypatch):
    """Where the kernel's files are hidden, a driver that is too old must be known all the same."""
    fake = tmp_path / "nvidia-smi"
    fake.write_text(
        "#!/bin/sh\ncase \"$1\" in\n--query-gpu=driver_version) echo 570.133.20;;\n*) echo 'NVIDIA A10, 8.6';;\nesac\n"
    )
    fake.chmod(0o755)
    monkeypatch.setattr(machine, "_VERSION_FILES", ())

    found = machine.ask({"PATH": f"{tmp_path}:/usr/bin:/bin"})

    assert (found.driver, found.gpus) == ("570.133.20", (Gpu(name="NVIDIA A10", capability=(8, 6)),))
    assert machine.ask({"PATH": "/usr/bin:/bin"}).driver == ""


@pytest.mark.subprocess
def test_nvidia_smi_without_a_driver(tmp_path, monkeypatch):
    """It is installed and says that it cannot talk to the driver: there is no GPU."""
    fake = tmp_path / "nvidia-smi"
    fake.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed because it could not communicate'\nexit 9\n")
    fake.chmod(0o755)
    monkeypatch.setattr(machine, "_VERSION_FILES", ())

    assert machine.ask({"PATH": str(tmp_path)}).gpus == ()


def test_free_space_of_a_directory_that_is_not_there_yet(tmp_path):
    """The store is made by the first build, and the disk is asked before."""
    assert machine.free_bytes(tmp_path / "not" / "there") > 0
    assert machine.same_filesystem(tmp_path / "not", tmp_path)


def test_compiler_is_required_with_one_line(tmp_path):
    """No compiler on an empty PATH."""
    with pytest.raises(CannotRunError, match=r"no C\+\+ compiler"):
        machine.require_compiler({"PATH": str(tmp_path)})


@pytest.mark.subprocess
def test_no_interpreter_that_fits(tmp_path):
    """An interpreter without wheels is not used; the answer names the ones that would do."""
    fake = tmp_path / "uv"
    fake.write_text("#!/bin/sh\nexit 2\n")
    fake.chmod(0o755)

    with pytest.raises(CannotRunError, match=r"there is no Python 3\.99 on this machine, offline") as caught:
        interpreter.find(("3.99",), uv=str(fake), offline=True, environ={"PATH": "/usr/bin:/bin"})

    assert "python" in caught.value.hint


@pytest.mark.subprocess
def test_an_interpreter_without_headers_is_the_last_resort(tmp_path):
    """A machine with a bare system Python could not even run the profile that compiles nothing."""
    bare = tmp_path / "python3.99"
    bare.write_text("#!/bin/sh\necho '[\"" + str(bare) + '", "3.99.1", "cpython", false, false]\'\n')
    bare.chmod(0o755)
    fake = tmp_path / "uv"
    fake.write_text(f"#!/bin/sh\necho {bare}\n")
    fake.chmod(0o755)

    found = interpreter.find(("3.99",), uv=str(fake), offline=True, environ={"PATH": "/usr/bin:/bin"})

    assert (found.path, found.headers) == (bare, False)


@pytest.mark.subprocess
def test_free_threaded_interpreter_is_not_used(tmp_path):
    """Its wheels have other tags, and its threads are another experiment."""
    python = tmp_path / "python3.99"
    python.write_text("#!/bin/sh\necho '[\"" + str(python) + '", "3.99.1", "cpython", true, true]\'\n')
    python.chmod(0o755)
    fake = tmp_path / "uv"
    fake.write_text(f"#!/bin/sh\necho {python}\n")
    fake.chmod(0o755)

    with pytest.raises(CannotRunError, match="there is no Python"):
        interpreter.find(("3.99",), uv=str(fake), offline=True, environ={"PATH": "/usr/bin:/bin"})


@pytest.fixture
def answers():
    """A server that answers with the codes it is given, one after the other."""
    codes = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(codes.pop(0))
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b"page")

        def log_message(self, *_args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield codes, f"http://127.0.0.1:{server.server_port}/torch/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.socket
def test_server_error_is_tried_again(answers):
    """One overloaded moment of an index must not cost a candidate."""
    codes, url = answers
    codes += [503, 502, 200]

    assert fetch.page(url).text == "page"


@pytest.mark.socket
@pytest.mark.parametrize(
    ("codes_given", "outcome"),
    [([404], "not_published"), ([403], "not_published"), ([500] * 3, "download_failed"), ([429], "download_failed")],
)
def test_what_a_status_means(answers, codes_given, outcome):
    """Not there is a fact about the build; not reachable is a fact about today."""
    codes, url = answers
    codes += codes_given

    with pytest.raises(CannotBuildError) as caught:
        fetch.page(url)

    assert caught.value.outcome == outcome
    assert codes == []
