"""A scenario faster or slower than it was written."""

from msgspec.structs import replace

from clew.providers.scenario import Answer, Scenario, Send


def paced(scenario: Scenario, speed: float | None) -> Scenario:
    """The scenario with every rate and stall changed; a stall for ever stays one."""

    def send(said: Send | None) -> Send | None:
        if said is None:
            return None
        events, size = said.events_per_s, said.bytes_per_s
        return replace(
            said,
            events_per_s=None if events is None or speed is None else events * speed,
            bytes_per_s=None if size is None or speed is None else size * speed,
        )

    def answer(said: Answer) -> Answer:
        faults = [
            fault
            if not isinstance(fault.stall_s, float)
            else replace(fault, stall_s=0.0 if speed is None else fault.stall_s / speed)
            for fault in said.faults
        ]
        return replace(said, send=send(said.send), faults=faults)

    defaults = replace(scenario.defaults, send=send(scenario.defaults.send))
    return replace(scenario, defaults=defaults, answers=[answer(a) for a in scenario.answers])
