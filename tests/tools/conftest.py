from tests.tools.workshop import workshop

__all__ = ["workshop"]
