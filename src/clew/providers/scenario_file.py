"""Reads a scenario from disk; the only module of the format that touches a file.

Decision: docs/decisions/040-scripted-models.md
"""

from pathlib import Path

from clew.providers.scenario import Scenario, parse


def read_scenario(path: str | Path) -> Scenario:
    """The scenario in a file; its ending says JSON or YAML. Raises ScenarioError and OSError."""
    return parse(Path(path).read_bytes(), str(path))
