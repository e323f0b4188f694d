"""Check and repair transcripts from anywhere, such as an object store: bytes in, bytes out."""

from typing import Any

import clew


def damaged() -> bytes:
    """Return a transcript whose last tool call never got its result."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "make"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}
    history: list[dict[str, Any]] = [
        {"role": "user", "content": "Build it"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    session = clew.Session.create(history, home="home")
    lines = session.path.read_bytes().splitlines(keepends=True)
    return b"".join(line for line in lines if b'"tool_result"' not in line)


def main() -> None:
    session = clew.Session.open(damaged())
    print([problem.name for problem in session.check()])
    repaired = session.repair()
    print([problem.name for problem in repaired.check()])
    last = repaired.messages()[-1]
    if isinstance(last, clew.User):
        print([type(block).__name__ for block in last.content])
    print(b"toolu_1" in repaired.path.read_bytes())


if __name__ == "__main__":
    main()

# -> ['missing-result']
# -> []
# -> ['ToolResult']
# -> True
