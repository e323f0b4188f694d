from tests.agent.tools.workshop import workshop

__all__ = ["workshop"]
