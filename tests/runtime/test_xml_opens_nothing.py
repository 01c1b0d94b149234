"""Documents of XML open no address, whether the SELECT or the data names it; and a server that never answers
costs nothing. Long tests start JVMs of their own: one shows that these would see a connection, since there
the flags are taken away."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from cooperator.connectors.sql_functions import NO_EXTERNAL_XML
from cooperator.connectors.transform import selected
from tests.runtime.hostile_selects import DOCUMENTS_OF_XML
from tests.runtime.spark_bench import SparkBench

pytestmark = pytest.mark.real

STARTED_S = 240
MEMBER = "tests/runtime/test_xml_opens_nothing.py::test_no_select_makes_a_member_open_anything"
FUNCTIONS = ("xpath_string", "xpath", "xpath_boolean", "xpath_double")


class SilentServer:
    """Accepts every connection, and never answers."""

    def __init__(self) -> None:
        self.connected = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)
        for each in self._open:
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._open.append(self._socket.accept()[0])
                self.connected.set()


@pytest.fixture
def server() -> Iterator[SilentServer]:
    with SilentServer() as started:
        yield started


@contextlib.contextmanager
def reader(
    directory: Path, conf: dict[str, str], document: str, *selects: str
) -> Iterator[subprocess.Popen[str]]:
    """A program with a member's JVM; it is ended with its JVM."""
    command = [sys.executable, "-m", "tests.runtime.xml_reader", str(directory), json.dumps(conf), document]
    with subprocess.Popen([*command, *selects], stdout=subprocess.PIPE, text=True) as program:
        try:
            yield program
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)


def documents(url: str) -> list[str]:
    return [each.replace("{}", url) for each in DOCUMENTS_OF_XML]


def selects(url: str) -> list[str]:
    by_the_data = [f"SELECT {function}(value, 'a/text()') AS a FROM input" for function in FUNCTIONS]
    by_the_select = [f"SELECT xpath_string('{each}', 'a/text()') AS a FROM input" for each in documents(url)]
    by_the_path = [f"SELECT xpath_string('<a/>', 'document(\"{url}/path\")') AS a FROM input"]
    return [*by_the_data, *by_the_select, *by_the_path]


def answer_of(session: Any, document: str, select: str) -> str:
    try:
        return str(selected(session.createDataFrame([(document,)], "value STRING"), select).collect())
    except Exception as error:
        return f"refused: {error}"


def check_refusals(server: SilentServer, answers: list[str]) -> None:
    assert len(answers) == len(selects(server.url))
    assert not server.connected.is_set()
    assert all("accessExternalDTD" in answer for answer in answers[: len(FUNCTIONS)]), answers[0]


def test_no_select_makes_a_member_open_anything(spark: SparkBench, server: SilentServer) -> None:
    """The JVM has the flags of every member's (``test_spark_settings``)."""
    session, document = spark.runtime.session(threading.Event()).newSession(), documents(server.url)[0]
    check_refusals(server, [answer_of(session, document, select) for select in selects(server.url)])


@pytest.mark.long(MEMBER)
def test_a_member_opens_nothing(tmp_path: Path, server: SilentServer) -> None:
    """Also if the Worker's author has options of its own for the JVM."""
    conf = {"spark.driver.extraJavaOptions": "-Xss4m"}
    with reader(tmp_path, conf, documents(server.url)[0], *selects(server.url)) as program:
        said, _ = program.communicate(timeout=STARTED_S)
    check_refusals(server, said.splitlines())


@pytest.mark.long(MEMBER)
@pytest.mark.parametrize("number", [0, len(FUNCTIONS)])
def test_without_the_flags_a_connection_is_seen(tmp_path: Path, server: SilentServer, number: int) -> None:
    """A Worker's author can lift them; then the same SELECT waits for the server, by its data or its text."""
    lifted = " ".join(f"{flag}all" for flag in NO_EXTERNAL_XML)
    conf = {"spark.driver.extraJavaOptions": lifted}
    with reader(tmp_path, conf, documents(server.url)[0], selects(server.url)[number]) as program:
        assert server.connected.wait(STARTED_S)
        assert program.poll() is None
