"""The machines do not contradict themselves, and no shell has caught an unexpected exception."""

from tests.simulation.promises.base import Promise


class Consistent(Promise):
    def check(self) -> None:
        simulation = self.simulation
        if simulation.errors:
            raise self.broken(simulation.errors[0])
        if simulation.touched:
            touched, simulation.touched = simulation.touched, []
            for member in touched:
                if member.alive:
                    try:
                        member.validate()
                    except AssertionError as error:
                        raise self.broken(f"{member.name}: {error}") from error
        if simulation.group_touched:
            simulation.group_touched = False
            try:
                simulation.coordinator.validate()
            except AssertionError as error:
                raise self.broken(f"the broker: {error}") from error
