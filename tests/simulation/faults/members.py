"""Members and their pods: killed, hung, deleted, in crash loops; tasks that do not start or stop."""

from tests.simulation.faults.base import Fault
from tests.simulation.worker import WorkerProcess

_FOR_EVER = 0.75


class OfMember(Fault):
    def member(self) -> WorkerProcess | None:
        return self.one_of(self.simulation.members)


class MemberIsKilled(OfMember):
    def happen(self) -> str:
        member = self.member()
        if member is None:
            return ""
        member.kill()
        return f"{member.name} is killed"


class MemberHangs(OfMember):
    """Its supervisor stands still; its tasks run, and so does its watchdog."""

    concerns_stock = False

    def happen(self) -> str:
        member = self.member()
        if member is None or member.hung or member.frozen_ms is not None:
            return ""
        member.hang()

        def heal() -> None:
            if member.hung:
                member.resume()

        return f"{member.name} hangs {self.lasting(500, 16_000, heal)}"


class MemberLoops(OfMember):
    """It is killed each time it has come up, a few times."""

    def happen(self) -> str:
        member = self.member()
        if member is None:
            return ""
        identity, deaths = member.identity, self.random.randint(2, 4)
        ended = False

        def heal() -> None:
            nonlocal ended
            ended = True

        def strike(left: int) -> None:
            if ended or not left:
                return
            for other in [m for m in self.simulation.members if m.identity == identity]:
                self.simulation.tell(f"{other.name} crashes")
                other.kill()
            self.simulation.scheduler.after(pause_ms, lambda: strike(left - 1))

        pause_ms = self.random.randint(600, 2_500)
        strike(deaths)
        return f"{identity} crashes {deaths} times {self.lasting(9_000, 10_000, heal)}"


class LearnersStall(Fault):
    """The storage from which members learn does not answer."""

    concerns_stock = False

    def happen(self) -> str:
        stalled = list(self.simulation.members)
        for member in stalled:
            member.runtime.learning.stalled = True

        def heal() -> None:
            for member in stalled:
                member.runtime.learning.stalled = False

        return f"nobody learns anything {self.lasting(2_000, 20_000, heal)}"


class PodIsDeleted(Fault):
    """Somebody else deletes it: kubectl, an eviction."""

    def happen(self) -> str:
        pod = self.one_of(list(self.simulation.cluster.pods.values()))
        if pod is None:
            return ""
        self.simulation.cluster.delete(pod.identity, pod.incarnation)
        return f"somebody deletes pod {pod.identity}"


class TheLastThatIsWarmIsDeleted(OfMember):
    """All others crash at once, and while they come up again somebody deletes the remaining pod."""

    concerns_stock = False

    def happen(self) -> str:
        left = self.member()
        if left is None:
            return ""
        for other in [member for member in self.simulation.members if member is not left]:
            other.kill()
        delay_ms = self.random.randint(1_000, 6_000)
        cluster, incarnation = self.simulation.cluster, left.incarnation
        self.simulation.scheduler.after(delay_ms, lambda: cluster.delete(left.identity, incarnation))
        return f"all but {left.name} crash, and somebody deletes its pod {delay_ms} ms later"


class PodIsDeletedByForce(Fault):
    def happen(self) -> str:
        pod = self.one_of(list(self.simulation.cluster.pods.values()))
        if pod is None:
            return ""
        self.simulation.cluster.delete_by_force(pod.identity)
        return f"somebody deletes pod {pod.identity} by force"


class StartsFail(OfMember):
    def happen(self) -> str:
        member = self.member()
        if member is None:
            return ""
        member.runtime.failing = self.random.randint(1, 3)
        return f"the next {member.runtime.failing} starts at {member.name} fail"


class WarmUpsAreSlow(Fault):
    """Machines are busy: runtimes that start meanwhile take several times as long.

    Of several such faults at once the slowest counts. Their product made warm-ups that outlasted the time to
    rest (seeds 901203 and 901396), long after all faults were over.
    """

    concerns_stock = False

    def happen(self) -> str:
        times = self.random.choice([2, 3])
        slower = self.simulation.slower_warm_ups
        slower.append(times)

        def heal() -> None:
            slower.remove(times)

        return f"warm-ups take {times} times as long {self.lasting(2_000, 20_000, heal)}"


class WarmUpsFail(Fault):
    """Runtimes fail to start, again and again."""

    concerns_stock = False

    def happen(self) -> str:
        if self.simulation.warm_ups_fail:
            return ""
        self.simulation.warm_ups_fail = True

        def heal() -> None:
            self.simulation.warm_ups_fail = False

        return f"warm-ups fail {self.lasting(2_000, 20_000, heal)}"


class StopsHang(OfMember):
    """For a while; or, of what a member of ours is told to hand over, until its process has ended."""

    def happen(self) -> str:
        member = self.member()
        if member is None:
            return ""
        runtime = member.runtime
        runtime.stuck = True
        lasting = self.lasting(500, 12_000, runtime.unstick)
        # The last draw, so that a seed's other histories stay as they were.
        runtime.stuck_for_ever = runtime.stuck_for_ever or (
            not member.is_stock and self.random.random() < _FOR_EVER
        )
        return f"stops at {member.name} hang {'for ever' if runtime.stuck_for_ever else lasting}"
