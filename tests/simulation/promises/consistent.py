"""The machines do not contradict themselves, and no shell has caught what it did not expect."""

from simulation.promises.base import Promise


class Consistent(Promise):
    def check(self) -> None:
        world = self.world
        if world.errors:
            raise self.broken(world.errors[0])
        if world.touched:
            touched, world.touched = world.touched, []
            for member in touched:
                if member.alive:
                    try:
                        member.validate()
                    except AssertionError as error:
                        raise self.broken(f"{member.name}: {error}") from error
        if world.group_touched:
            world.group_touched = False
            try:
                world.coordinator.validate()
            except AssertionError as error:
                raise self.broken(f"the broker: {error}") from error
