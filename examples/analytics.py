"""Costs of all sessions: by model and by tool, with compacted history and subagents."""

import tempfile
from collections import Counter
from decimal import Decimal
from typing import Any

import clew


def session_of(prompt: str, tool: str, tokens: int) -> list[dict[str, Any]]:
    """Return a conversation with one call, as a service bills it."""
    call = {"type": "tool_use", "id": "toolu_1", "name": tool, "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}
    usage = {"input_tokens": tokens, "output_tokens": 100}
    model = "claude-sonnet-4-5"
    return [
        {"role": "user", "content": prompt},
        {"role": "assistant", "content": [call], "model": model, "usage": usage},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": "Done.", "model": model, "usage": usage},
    ]


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        clew.Session.create(session_of("Fix the test", "Bash", 10_000), cwd=home, home=home)
        clew.Session.create(session_of("Explain it", "Read", 2_000), cwd=home, home=home)

        by_tool: Counter[str] = Counter()
        total = Decimal(0)
        for session in clew.sessions(home=home, everywhere=True):
            ledger = session.ledger()
            total += ledger.total.usd
            for tool, spend in ledger.by_tool().items():
                by_tool[tool] += spend.requests
            print(f"{session.title}: ${ledger.total.usd:.4f}")
        print(f"${total:.4f}", sorted(by_tool.items()))


if __name__ == "__main__":
    main()

# -> Explain it: $0.0150
# -> Fix the test: $0.0630
# -> $0.0780 [('(answer)', 2), ('Bash', 1), ('Read', 1)]
