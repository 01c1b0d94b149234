"""No wait in the sources is without a bound: each call that can wait names its time-out, or has a reason."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "operator" / "cooperator"

CODE_OF_TASKS = (
    "a stop means that nothing runs any more; the member ends its process when that takes too long"
)
ANSWERED = "what is asked has ended already"
SAME_NAME = "a method of ours that does not wait"
REASONS = {
    # Threads of tasks, whose stops are bounded by the revocation time-out of the member (decision 061).
    ("runtime/attempt.py", "self.previous.wait()"): CODE_OF_TASKS,
    ("runtime/attempt.py", "run.cancelled.wait()"): "a task that is paused waits to be resumed or stopped",
    ("runtime/attempt.py", "def wait(timeout_s)"): CODE_OF_TASKS,
    ("runtime/jobs.py", "self._thread.join()"): CODE_OF_TASKS,
    ("runtime/jobs.py", "thread.join()"): CODE_OF_TASKS,
    # On the event loop of a group, whose requests have time-outs of their own.
    (
        "group/membership.py",
        "wait_for(self.loop, self._ended, None)",
    ): "until the end; the loop turns meanwhile",
    ("group/membership.py", "self.admin.close()"): "closes sockets",
    ("group/inspector.py", "admin.close()"): "closes sockets",
    (
        "runtime/warm.py",
        "kafka.producer.KafkaProducer(settings).close(at_once)",
    ): "the argument is its time-out",
    (
        "runtime/warm.py",
        "kafka.consumer.KafkaConsumer(settings).close(at_once)",
    ): "the argument is its time-out",
    (
        "runtime/warm.py",
        "kafka.admin.AdminClient.create(settings).close(at_once)",
    ): "the argument is its time-out",
    ("group/lead.py", "self._join.wait()"): "a JoinGroup fails after its own time-out",
    ("group/lead.py", "join.result()"): ANSWERED,
    ("group/membership.py", "incarnation.result()"): ANSWERED,
    ("group/library.py", "def wait(timeout_ms)"): "its requests fail after their own time-outs",
    ("group/library.py", "def send(timeout_ms)"): "None is the time-out of the client's settings",
    ("group/admin.py", "def _ask(timeout_ms)"): "None is the time-out of the client's settings",
    ("connectors/microbatch/mirror.py", "answer.result()"): ANSWERED,
    ("connectors/query.py", "self._query.exception()"): "Spark's method, which returns at once",
    # On the event loop of an endpoint.
    ("leader/http_listener.py", "asked.wait()"): "within asyncio.timeout",
    ("leader/http_listener.py", "ready.wait()"): "within asyncio.timeout",
    # Processes.
    ("agent/watchdog.py", "self._process.stdin.flush()"): "a few bytes a second to a process that reads them",
    ("artifacts/cache.py", "fcntl.flock(file, fcntl.LOCK_EX)"): "another process downloads the same file",
    ("cli/kubectl/plan.py", "subprocess.run([program, *command[1:]], check=False)"): "the user's own command",
    # Parts of tests.
    ("connectors/conformance/process.py", "self._process.wait()"): "after SIGKILL",
    ("connectors/conformance/process.py", "self._process.stdin.flush()"): "the test's own time-out",
    ("logs/memory.py", "self._thread.join()"): "the logs of tests",
    ("logs/memory.py", "self._broker.changed.wait()"): "the logs of tests",
    # Others of the same name.
    ("agent/listeners.py", "self._supervisor.join()"): SAME_NAME,
    ("group/coordinator.py", "self.join()"): SAME_NAME,
    ("leader/tls.py", "self._reloaded.get()"): SAME_NAME,
    ("log_lines/context.py", "_context.get()"): "a context variable",
    ("logs/kafka/clients.py", "self.acquire()"): SAME_NAME,
    ("logs/kafka/topic_reader.py", "clients.acquire()"): SAME_NAME,
    ("logs/kafka/topic_writer.py", "clients.acquire()"): SAME_NAME,
}
"""The waits that name no bound."""

WAITS = frozenset({"join", "result", "wait", "exception", "acquire", "communicate", "get"})
PROGRAMS = frozenset(
    {"subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.check_output"}
)
CONNECTIONS = frozenset(
    {"urlopen", "HTTPConnection", "HTTPSConnection", "create_connection", "ClientSession", "opener.open"}
)


def is_endless(value: ast.expr) -> bool:
    return ast.unparse(value) in ("None", "True", "-1", "-1.0")


def is_unbounded(call: ast.Call) -> bool:
    """Whether a call may wait for ever, judged by its name and arguments."""
    text = ast.unparse(call.func)
    receiver, _, name = text.rpartition(".")
    time_outs = [word.value for word in call.keywords if word.arg in ("timeout", "timeout_s", "blocking")]
    given = [*call.args, *time_outs]
    of_client = any(word in receiver for word in ("consumer", "producer", "admin"))
    match name:
        case "flock":
            return "LOCK_NB" not in ast.unparse(call)
        case "wait_for":
            return len(given) < 2 or is_endless(given[-1])
        case "poll" if of_client:
            return not given or is_endless(given[0])
        case "flush" if of_client or "stdin" in receiver:
            return not given
        case "close" if of_client:
            # The library's own close may hang: see close_aside.
            return True
        case _ if name in WAITS and receiver:
            return not given or all(map(is_endless, given))
        case _:
            is_program = text in PROGRAMS or text.endswith(tuple(CONNECTIONS))
            return is_program and not any("timeout" in (word.arg or "timeout") for word in call.keywords)


def has_endless_default(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Names of time-outs of a function that are unbounded unless given."""
    spec = function.args
    positional = [*spec.posonlyargs, *spec.args]
    defaults = [*zip(positional[::-1], spec.defaults[::-1], strict=False)]
    keywords = [(name, value) for name, value in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if value]
    for name, value in (*defaults, *keywords):
        if name.arg.startswith("timeout") and is_endless(value):
            yield name.arg


def unbounded(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and is_unbounded(node):
            yield ast.unparse(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (f"def {node.name}({name})" for name in has_endless_default(node))


def test_every_wait_has_a_bound_or_a_reason() -> None:
    found = {
        (str(path.relative_to(SOURCES)), each)
        for path in sorted(SOURCES.rglob("*.py"))
        for each in unbounded(path.read_text())
    }
    assert found - REASONS.keys() == set(), "give the call a time-out"
    assert REASONS.keys() - found == set(), "there is no such call any more"


@pytest.mark.parametrize(
    "call",
    [
        "thread.join()",
        "thread.join(None)",
        "thread.join(timeout=None)",
        "future.result()",
        "self._future.exception()",
        "event.wait()",
        "queue.get()",
        "queue.get(True)",
        "queue.get(timeout=None)",
        "lock.acquire()",
        "lock.acquire(True)",
        "condition.wait_for(lambda: True)",
        "condition.wait_for(lambda: True, None)",
        "consumer.poll()",
        "consumer.poll(-1)",
        "self._consumer.close()",
        "producer.flush()",
        "process.communicate()",
        "process.wait()",
        "subprocess.run(['ps'], check=False)",
        "urllib.request.urlopen(url)",
        "opener.open(request)",
        "HTTPConnection(host)",
        "socket.create_connection((host, port))",
        "aiohttp.ClientSession()",
        "fcntl.flock(file, fcntl.LOCK_EX)",
        "def stop(self, timeout_s: float | None = None): ...",
        "def stop(self, *, timeout_s: float | None = None): ...",
    ],
)
def test_a_wait_without_a_bound_is_found(call: str) -> None:
    assert list(unbounded(call))


@pytest.mark.parametrize(
    "call",
    [
        "thread.join(5)",
        "future.result(timeout=limit_s)",
        "queue.get(timeout=1)",
        "queue.get_nowait()",
        "lock.acquire(blocking=False)",
        "condition.wait_for(lambda: True, 5)",
        "consumer.poll(0.1)",
        "close_aside(consumer.close, 'consumer')",
        "subprocess.run(['ps'], timeout=5)",
        "HTTPConnection(host, timeout=5)",
        "', '.join(words)",
        "mapping.get(key)",
        "def stop(self, timeout_s: float = 5): ...",
    ],
)
def test_a_wait_with_a_bound_is_not_found(call: str) -> None:
    assert not list(unbounded(call))
