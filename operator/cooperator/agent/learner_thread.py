"""The thread that lets a member learn: it asks the leader what, and tells it how far the runtime is."""

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Final

from cooperator.agent.calls import LeaderCalls
from cooperator.agent.learner_talk import LearnerStanding, LearnerTalk
from cooperator.model import LearnerProgress, TaskId
from cooperator.runtime import Runtime
from cooperator.supervision import TURN_S, supervised, turn
from cooperator.wire import DecodeError, LearnerReport, decode_learner_answer

log = logging.getLogger(__name__)

LOOK_S: Final = 0.5
"""The interval of looks at what is learned; what becomes ready is reported this late at most."""
_ANSWER_S: Final = 10.0
_SHOWN: Final = 200


class LearnerThread:
    """Asks while a connector has tasks to be learned. ``standing``: thread-safe."""

    def __init__(
        self,
        runtime: Runtime,
        calls: LeaderCalls,
        standing: Callable[[], LearnerStanding],
        now_ms: Callable[[], int],
    ) -> None:
        self._runtime, self._calls, self._standing, self._now_ms = runtime, calls, standing, now_ms
        self._talk = LearnerTalk()
        self._wanted: Mapping[TaskId, Mapping[str, str]] = {}
        self._woken = threading.Event()
        self._ended = False
        self._thread = supervised(self._run, "learners")

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """The connectors have changed. Any thread."""
        self._woken.set()

    def stop(self, timeout_s: float) -> None:
        self._ended = True
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._ended:
            turn()
            try:
                self._look()
            except Exception:
                # Learning only saves time: its failure must not end the member.
                log.exception("could not learn what the leader names")
            # Without such a connector only a change of the connectors can matter.
            asks = bool(self._wanted) or self._talk.is_asked
            self._woken.wait(LOOK_S if asks else TURN_S)
            self._woken.clear()

    def question(self) -> tuple[str, LearnerReport] | None:
        """The leader's URL, and the report that is due; answer it with ``hear``."""
        standing = self._standing()
        found = self._runtime.learned() if self._wanted else ()
        learned = {
            each.task: LearnerProgress(each.bytes_behind, each.state_bytes, each.problem) for each in found
        }
        loading = frozenset(each.task for each in found if each.is_loading)
        report = self._talk.question(standing, learned, self._now_ms(), loading)
        return None if report is None else (standing.leader_url, report)

    def hear(self, status: int, body: str) -> None:
        """The leader's answer: the HTTP code, or 0 if there is none, and the body, or why there is none."""
        try:
            if status == 200:
                self._talk.answered(decode_learner_answer(body.encode()), self._now_ms())
                return
        except DecodeError as error:
            body = str(error)
        self._talk.failed(self._now_ms())
        log.info("the leader does not say what to learn: %d %s", status, body[:_SHOWN])

    def follow(self) -> None:
        """Let the runtime learn what the leader has named, without what is owned by now."""
        wanted = self._talk.wanted(self._standing())
        if wanted != self._wanted:
            log.info("learning the state of %s", ", ".join(map(str, sorted(wanted))) or "nothing")
            self._runtime.learn(wanted)
            self._wanted = wanted

    def _look(self) -> None:
        question = self.question()
        if question is not None:
            try:
                self.hear(*self._calls.learned(*question).result(_ANSWER_S))
            except FutureTimeout:
                self.hear(0, "no answer in time")
        self.follow()
