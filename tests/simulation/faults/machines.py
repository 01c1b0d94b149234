"""Nodes: frozen, cut off, without power, cordoned, drained, deleted."""

from simulation.faults.base import Fault
from simulation.network import API, BROKER


class OfNode(Fault):
    def node(self) -> str:
        return self.random.choice(list(self.world.cluster.machines))

    def cut(self, node: str, places: list[str]) -> None:
        for place in places:
            self.world.network.cut(node, place)

    def join(self, node: str, places: list[str]) -> None:
        for place in places:
            self.world.network.join(node, place)


class MachineFreezes(OfNode):
    """A virtual machine stands still, with everything on it, and goes on later as if nothing had been."""

    def happen(self) -> str:
        node = self.node()
        members = [m for m in self.world.members if m.place == node and m.frozen_ms is None and not m.hung]
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
        return f"{node} loses the broker {self.lasting(300, 20_000, lambda: self.join(node, [BROKER]))}"


class NodeLosesApi(OfNode):
    """Its kubelet is not heard of; its pods run, and are restarted unseen."""

    def happen(self) -> str:
        node = self.node()
        self.cut(node, [API])
        return f"{node} loses the API {self.lasting(300, 25_000, lambda: self.join(node, [API]))}"


class NodeLosesEverything(OfNode):
    def happen(self) -> str:
        node = self.node()
        world = self.world
        others = [other for other in world.cluster.machines if other != node]
        places = [API, BROKER, *others, *(f"op-{n}" for n in range(world.shape.operators))]
        self.cut(node, places)
        return f"{node} is cut off {self.lasting(300, 30_000, lambda: self.join(node, places))}"


class NodeLosesPower(OfNode):
    """And its administrator may say so, by the out-of-service taint."""

    def happen(self) -> str:
        node = self.node()
        cluster = self.world.cluster
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
            self.world.scheduler.after(self.random.randint(500, 8_000), taint)
        return f"{node} loses power {duration}" + (", and is tainted out-of-service" if said else "")


class NodeIsCordoned(OfNode):
    def happen(self) -> str:
        node = self.node()
        change = self.world.cluster.change_node
        change(node, cordoned=True)
        return f"{node} is cordoned {self.lasting(1_000, 15_000, lambda: change(node, cordoned=False))}"


class NodeIsDrained(OfNode):
    """An autoscaler's taint: it is about to go."""

    concerns_stock = False

    def happen(self) -> str:
        node = self.node()
        change = self.world.cluster.change_node
        change(node, cordoned=True, leaving=True)

        def heal() -> None:
            change(node, cordoned=False, leaving=False)

        return f"{node} is about to go {self.lasting(1_000, 15_000, heal)}"


class NodeIsDeleted(OfNode):
    """The Node object only; what runs on the machine runs on until its kubelet hears of it."""

    def happen(self) -> str:
        node = self.node()
        cluster = self.world.cluster
        cluster.delete_node(node)
        return f"the object of {node} is deleted {self.lasting(500, 8_000, lambda: cluster.register(node))}"
