"""Machines and nodes: with wrong clocks, frozen, cut off, without power, cordoned, drained, deleted."""

from tests.simulation.faults.base import Fault
from tests.simulation.network import API, BROKER


class OfNode(Fault):
    def node(self) -> str:
        return self.random.choice(list(self.simulation.cluster.machines))

    def cut(self, node: str, places: list[str]) -> None:
        for place in places:
            self.simulation.network.cut(node, place)

    def join(self, node: str, places: list[str]) -> None:
        for place in places:
            self.simulation.network.join(node, place)


class MachineFreezes(OfNode):
    """A virtual machine stands still, with everything on it, and later continues without noticing."""

    def happen(self) -> str:
        node = self.node()
        members = [
            m for m in self.simulation.members if m.place == node and m.frozen_ms is None and not m.hung
        ]
        if not members:
            return ""
        for member in members:
            member.freeze()

        def heal() -> None:
            for member in members:
                if member.alive:
                    member.thaw()

        return f"{node} freezes {self.lasting(500, 20_000, heal)}"


class NodeLosesBroker(OfNode):
    def happen(self) -> str:
        node = self.node()
        self.cut(node, [BROKER])
        return f"{node} loses the broker {self.lasting(300, 35_000, lambda: self.join(node, [BROKER]))}"


class OthersLoseBroker(OfNode):
    """All machines but one lose the broker, with the operators. Members on the last one are killed: their
    next incarnations, of which nobody has heard, have the broker for themselves.
    """

    concerns_stock = False

    def happen(self) -> str:
        last, simulation = self.node(), self.simulation
        operators = [f"op-{n}" for n in range(simulation.shape.operators)]
        others = [*(node for node in simulation.cluster.machines if node != last), *operators]
        killed = [m for m in simulation.members if m.place == last]
        for place in others:
            self.cut(place, [BROKER])

        def kill() -> None:
            for member in killed:
                if member.alive:
                    member.kill()

        def heal() -> None:
            for place in others:
                self.join(place, [BROKER])

        # They are members of the last round before, and their ends are proven afterwards.
        simulation.scheduler.after(self.random.randint(0, 3_000), kill)
        duration = self.lasting(15_000, 40_000, heal)
        return f"all but {last} lose the broker {duration}; there {len(killed)} are killed"


class NodeLosesApi(OfNode):
    """Its kubelet is silent; its pods run, and are restarted unseen."""

    def happen(self) -> str:
        node = self.node()
        self.cut(node, [API])
        return f"{node} loses the API {self.lasting(300, 25_000, lambda: self.join(node, [API]))}"


class NodeLosesEverything(OfNode):
    def happen(self) -> str:
        node = self.node()
        simulation = self.simulation
        others = [other for other in simulation.cluster.machines if other != node]
        places = [API, BROKER, *others, *(f"op-{n}" for n in range(simulation.shape.operators))]
        self.cut(node, places)
        return f"{node} is cut off {self.lasting(300, 30_000, lambda: self.join(node, places))}"


class NodeLosesPower(OfNode):
    """Its administrator may also set the out-of-service taint."""

    def happen(self) -> str:
        node = self.node()
        cluster = self.simulation.cluster
        if not cluster.machines[node].powered:
            return ""
        cluster.lose_power(node)
        said = self.random.random() < 0.5

        def taint() -> None:
            if not cluster.machines[node].powered:
                cluster.change_node(node, ready=False, out_of_service=True)
                cluster.collect(node)

        def heal() -> None:
            cluster.change_node(node, out_of_service=False)
            cluster.regain_power(node)

        duration = self.lasting(1_000, 25_000, heal)
        if said:
            self.simulation.scheduler.after(self.random.randint(500, 8_000), taint)
        return f"{node} loses power {duration}" + (", and is tainted out-of-service" if said else "")


class NodeIsCordoned(OfNode):
    def happen(self) -> str:
        node = self.node()
        change = self.simulation.cluster.change_node
        change(node, cordoned=True)
        return f"{node} is cordoned {self.lasting(1_000, 15_000, lambda: change(node, cordoned=False))}"


class NodeIsDrained(OfNode):
    """An autoscaler's taint announces its removal."""

    concerns_stock = False

    def happen(self) -> str:
        node = self.node()
        change = self.simulation.cluster.change_node
        change(node, cordoned=True, leaving=True)

        def heal() -> None:
            change(node, cordoned=False, leaving=False)

        return f"{node} is about to go {self.lasting(1_000, 15_000, heal)}"


class NodeIsInterrupted(OfNode):
    """A provider's notice, and the end of the machine after its deadline, whatever is still there. The same
    name comes back as an empty machine."""

    concerns_stock = False

    def happen(self) -> str:
        node = self.node()
        cluster = self.simulation.cluster
        if not cluster.machines[node].powered:
            return ""
        cluster.change_node(node, leaving=True)
        deadline_ms = self.random.choice((2_000, 10_000, 30_000))
        healed = False

        def end() -> None:
            if not healed and cluster.machines[node].powered:
                cluster.lose_power(node)

        def heal() -> None:
            nonlocal healed
            healed = True
            cluster.change_node(node, leaving=False)
            cluster.regain_power(node)

        self.simulation.scheduler.after(deadline_ms, end)
        duration = self.lasting(deadline_ms + 500, deadline_ms + 15_000, heal)
        return f"{node} will go in {deadline_ms} ms, {duration}"


class NodeClockIsSetBack(OfNode):
    """A machine's clock was ahead since it booted, and is set right (NTP) while a member there restarts."""

    concerns_stock = False

    def happen(self) -> str:
        machine = self.simulation.cluster.machines[self.node()]
        members = [member for member in self.simulation.members if member.place == machine.name]
        if not members:
            return ""
        back_ms = self.random.choice([2_000, 30_000, 600_000])
        member = self.random.choice(members)
        member.kill()
        self.simulation.clocks[machine.name] -= back_ms
        return f"{member.name} is killed, and the clock of {machine.name} is set back by {back_ms} ms"


class ClockJumps(Fault):
    """The wall clock of an operator's machine, or of a member's, is set, and stays so: whatever starts there
    later has it from its start."""

    def happen(self) -> str:
        machines = list(self.simulation.cluster.machines)
        operators = [f"op-{n}" for n in range(self.simulation.shape.operators)]
        place = self.random.choice(operators if self.random.random() < 0.7 else machines)
        size_ms = self.random.choice([700, 5_000, 30_000, 600_000, 3 * 3_600_000])
        jump_ms = self.random.choice([-size_ms, size_ms])
        self.simulation.clocks[place] += jump_ms
        return f"the wall clock of {place} jumps by {jump_ms} ms"


class NodeIsDeleted(OfNode):
    """Only the Node object is deleted; the machine's processes run until its kubelet learns of it."""

    def happen(self) -> str:
        node = self.node()
        cluster = self.simulation.cluster
        cluster.delete_node(node)
        return f"the object of {node} is deleted {self.lasting(500, 8_000, lambda: cluster.register(node))}"
