"""A scripted session as a process of its own, to be killed: `python -m tests.record.transcript.writer HOME`.

Goes on with the session if it exists. After each durable point it prints what was promised: a line
`ack UUID ...`. It ends with code 3 if another process has the session.
"""

import asyncio
import os
import sys
import uuid
from pathlib import Path

from clew.record.transcript.resume import LockedSession, resume
from clew.record.transcript.running import Registration, Running
from tests.record.transcript.session import SESSION, Session, call, text, uuids


async def turn(session: Session, number: int) -> None:
    recorder = session.recorder
    prompt = session.user(f"prompt {number}", prompt_source="sdk")
    recorder.record([prompt])
    await promise(session, [prompt["uuid"]])
    calls = [f"toolu_{number}_{n}_{uuid.uuid4().hex[:6]}" for n in range(2)]
    answer = session.answer(text("thinking " * 30), *[call(c, "x" * 200) for c in calls])
    results = [session.result(c, "result " * 50) for c in reversed(calls)]
    for done, name in enumerate(calls):
        recorder.tool_started(name, answer[: done + 2])
        await promise(session, uuids(answer[: done + 2]))
    recorder.tool_finished(calls[1], results[0])
    await promise(session, [results[0]["uuid"]])
    recorder.record([*answer, *results])
    await promise(session, uuids([*answer, *results]))
    final = session.answer(text(f"done {number}"))
    recorder.record(final)
    recorder.last_prompt(f"prompt {number}")
    await promise(session, uuids(final))


async def promise(session: Session, promised: list[str]) -> None:
    saved = await session.recorder.durable()
    if not saved.troubles:
        os.write(1, f"ack {' '.join(promised)}\n".encode())


def main() -> int:
    home, turns = Path(sys.argv[1]), int(sys.argv[2])
    session = Session(home)
    assert session.log
    session.new_id = lambda: str(uuid.uuid4())
    running = Running(pid=os.getpid(), session_id=SESSION, cwd="/w", name="writer")
    registration = Registration(home, running)
    if session.recorder.transcript.exists():
        found = resume(session.recorder, session.log, home=home)
        if isinstance(found, LockedSession):
            os.write(1, f"{found}\n".encode())
            return 3
    for number in range(turns):
        asyncio.run(turn(session, number))
    if len(sys.argv) > 3:
        sys.stdin.read()
    session.close()
    registration.leave()
    return 0


if __name__ == "__main__":
    sys.exit(main())
