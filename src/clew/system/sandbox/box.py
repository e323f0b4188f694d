"""The sandbox of a session: it chooses the backend and wraps each command.

The choice depends on a test command, which must fail to write to a forbidden place. A version check
would not be enough, because systems that have the program often forbid what it does. A command that
requires a sandbox never runs without one: if no backend works, `around` raises an error with the
reason.
"""

import asyncio
import contextlib
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec.structs import replace

from clew.system.files import is_folder, is_there
from clew.system.process import walls as kernel
from clew.system.process.output import ProcessOutput
from clew.system.process.programs import find_own_program
from clew.system.process.run import hold_data, run
from clew.system.process.spawn import Launcher
from clew.system.sandbox import backends, inside
from clew.system.sandbox.policy import SandboxPolicy, covers
from clew.system.sandbox.protected_paths import Listing
from clew.system.sandbox.proxy import SandboxProxy
from clew.system.sandbox.walled import SandboxError, Walled

Kind: TypeAlias = Literal["bubblewrap", "landlock", "seatbelt"]

FILTER_FD = 195
CHANNEL_FD = 196
PROBE_WAIT_S = 10.0
WROTE = 9
# Writes to a forbidden place. If the write succeeds, the backend does not work.
PROBE = f'if (: > "$0") 2>/dev/null; then exit {WROTE}; fi; exit 0'


class Box:
    """The sandbox for one kind of policy: for ordinary commands, or for read-only commands.

    `hidden` are values, such as keys. Variables with such a value are removed from the environment
    of every sandboxed command.
    """

    def __init__(
        self,
        policy: SandboxPolicy,
        launcher: Launcher,
        *,
        hidden: Sequence[str] = (),
        only: Kind | None = None,
        without: Collection[str] = (),
    ) -> None:
        self._launcher = launcher
        self._hidden = frozenset(hidden)
        self._only = only
        # The backends that a feature flag turned off.
        self._without = without
        self._choosing = asyncio.Lock()
        self._kind: Kind | None = None
        self._why = ""
        self._unprivileged: Sequence[str] = backends.UNPRIVILEGED[0]
        self.listing = Listing()
        try:
            self.temp = os.path.realpath(tempfile.mkdtemp(prefix="clew-"))
        except OSError as error:
            raise SandboxError(
                f"can't create a temporary folder for sandboxed commands: {error}"
            ) from None
        # Each read-only command gets its own folder inside this one.
        own = () if policy.is_read_only else (self.temp,)
        self.policy = replace(policy, write=(*policy.write, *own))

    def close(self) -> None:
        shutil.rmtree(self.temp, ignore_errors=True)

    @property
    def works(self) -> bool:
        """True once a working backend has been found."""
        return self._kind is not None

    @property
    def weakness(self) -> str:
        """A restriction that the backend can't enforce on this machine, or an empty string."""
        if self._kind != "bubblewrap" or self._unprivileged == backends.UNPRIVILEGED[0]:
            return ""
        return f"bubblewrap supports only {' '.join(self._unprivileged)} on this machine"

    # -- the choice of a backend

    async def kind(self) -> Kind:
        """Return the backend that works here. Raise `SandboxError` if none does.

        The backend is chosen on the first call.
        """
        async with self._choosing:
            if self._kind is None and not self._why:
                self._kind, self._why = await self._choose()
        if self._kind is None:
            raise SandboxError(self._why)
        return self._kind

    async def _choose(self) -> tuple[Kind | None, str]:
        reasons: list[str] = []
        kinds = candidates(is_read_only=self.policy.is_read_only)
        for kind in kinds if self._only is None else (self._only,):
            if kind in self._without:
                reasons.append(f"{kind}: turned off by a feature flag")
                continue
            why = await self._probe(kind)
            for weaker in backends.UNPRIVILEGED[1:] if why and kind == "bubblewrap" else ():
                strongest, self._unprivileged = self._unprivileged, weaker
                if not await self._probe(kind):
                    why = ""
                    break
                self._unprivileged = strongest
            if not why:
                return kind, ""
            reasons.append(f"{kind}: {why}")
        return None, "; ".join(reasons)

    async def _probe(self, kind: Kind) -> str:
        """Return why a backend does not work here, or an empty string if it does."""
        why = unfit(kind, self.policy)
        if why:
            return why
        place = self._forbidden_place(kind)
        output = ProcessOutput(keep_bytes=2000)
        try:
            async with self._walled(
                kind, ("sh", "-c", PROBE, str(place)), "/", os.environ, self.policy
            ) as walled:
                ended = await run(
                    self._launcher,
                    walled.argv,
                    cwd="/",
                    env=walled.environment,
                    stdout=output,
                    descriptors=walled.descriptors,
                    walls=walled.walls,
                    timeout_s=PROBE_WAIT_S,
                )
        except OSError as error:
            return str(error)
        if is_there(place):
            place.unlink()
            return "it allowed a test command to write to a forbidden path"
        if ended.exit.code:
            text = bytes(output.head).decode("utf-8", "replace").strip()
            return text.split("\n", 1)[0] or f"exit code {ended.exit.code}"
        return ""

    def _forbidden_place(self, kind: Kind) -> Path:
        """Return a path that does not exist and that the policy does not allow to be written."""
        name = f".clew-probe-{os.getpid()}-{kind}"
        folders = (Path(self.temp).parent, *Path(self.temp).parents, Path.home())
        return next(
            (f / name for f in folders if not covers(self.policy.write, str(f))), Path("/") / name
        )

    # -- one command

    @asynccontextmanager
    async def around(
        self,
        argv: Sequence[str],
        cwd: str,
        environment: Mapping[str, str],
        *,
        policy: SandboxPolicy | None = None,
    ) -> AsyncIterator[Walled]:
        """Wrap a command in a sandbox with `policy`, or with the policy of this box by default.

        Raise `SandboxError` if no backend works.
        """
        kind = await self.kind()
        async with self._walled(kind, argv, cwd, environment, policy or self.policy) as walled:
            yield walled

    @asynccontextmanager
    async def _walled(
        self,
        kind: Kind,
        argv: Sequence[str],
        cwd: str,
        environment: Mapping[str, str],
        policy: SandboxPolicy,
    ) -> AsyncIterator[Walled]:
        open_variables = {k: v for k, v in environment.items() if v not in self._hidden}
        open_variables["TMPDIR"] = self.temp
        async with AsyncExitStack() as opened:
            if policy.is_read_only:
                own = opened.enter_context(folder_in(self.temp))
                open_variables["TMPDIR"] = own
                policy = replace(policy, write=(own,))
            if kind == "bubblewrap":
                yield await self._bubblewrapped(argv, cwd, open_variables, policy, opened)
                return
            port, refused = await self._loopback_port(opened, policy)
            if port is not None:
                open_variables = inside.make_proxy_environment(open_variables, port)
            if kind == "seatbelt":
                command = (*backends.make_seatbelt_arguments(policy, port=port), *argv)
                yield Walled(
                    argv=command, environment=open_variables, refused=refused, policy=policy
                )
                return
            version = kernel.read_version()
            walls = backends.make_walls(policy, version=version, port=port, listing=self.listing)
            yield Walled(
                argv=tuple(argv),
                environment=open_variables,
                walls=walls,
                refused=refused,
                policy=policy,
            )

    async def _bubblewrapped(
        self,
        argv: Sequence[str],
        cwd: str,
        environment: dict[str, str],
        policy: SandboxPolicy,
        opened: AsyncExitStack,
    ) -> Walled:
        if not policy.is_read_only:
            opened.enter_context(kept_back(policy))
        descriptors: dict[int, int] = {}
        program = backends.make_bubblewrap_filter(policy)
        if program:
            descriptors[FILTER_FD] = opened.enter_context(hold_data(program))
        before = backends.make_bubblewrap_arguments(
            policy,
            cwd,
            filter_fd=FILTER_FD if program else None,
            unprivileged=self._unprivileged,
        )
        refused: list[str] = []
        if policy.has_network:
            ours, theirs = socket.socketpair()
            opened.callback(ours.close)
            opened.callback(theirs.close)
            descriptors[CHANNEL_FD] = theirs.fileno()
            before += inside.make_command(CHANNEL_FD)
            await opened.enter_async_context(serving(SandboxProxy(policy, refused.append), ours))
        return Walled(
            argv=(*before, *argv),
            environment=environment,
            descriptors=descriptors,
            refused=refused,
            policy=policy,
        )

    async def _loopback_port(
        self, opened: AsyncExitStack, policy: SandboxPolicy
    ) -> tuple[int | None, list[str]]:
        """Start a proxy for this command if it may use the network.

        Return the proxy's port, or None if there is no proxy, and the list to which refused
        hosts are added.
        """
        refused: list[str] = []
        if not policy.has_network:
            return None, refused
        server = await SandboxProxy(policy, refused.append).listen()
        opened.callback(server.close)
        return server.sockets[0].getsockname()[1], refused


def candidates(*, is_read_only: bool) -> tuple[Kind, ...]:
    """Return the backends to try, in order of preference.

    If both backends of a system enforce the entire policy, the cheaper one comes first.
    """
    if sys.platform == "darwin":
        return ("seatbelt",)
    return ("landlock", "bubblewrap") if is_read_only else ("bubblewrap", "landlock")


def unfit(kind: Kind, policy: SandboxPolicy) -> str:
    """Return why a backend cannot work here, or an empty string if it might work.

    The check does not run the backend.
    """
    match kind:
        case "bubblewrap":
            return "" if find_own_program(backends.BUBBLEWRAP) else "bwrap is not installed"
        case "landlock":
            return backends.why_not(policy, kernel.read_version())
        case "seatbelt":
            return "" if is_there(backends.SANDBOX_EXEC) else f"{backends.SANDBOX_EXEC} not found"


@contextmanager
def folder_in(parent: str) -> Iterator[str]:
    """Create a temporary folder. It is deleted with its contents when the context ends."""
    folder = tempfile.mkdtemp(dir=parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def kept_back(policy: SandboxPolicy) -> Iterator[None]:
    """Create the missing protected folders for the duration of a command.

    A mount cannot protect a folder that does not exist.
    """
    paths: list[Path] = []
    try:
        for path in map(Path, policy.no_write):
            if (
                path.name.startswith(".")
                and not path.suffix
                and not is_there(path)
                and is_folder(path.parent)
            ):
                path.mkdir()
                paths.append(path)
        yield
    finally:
        for path in paths:
            with contextlib.suppress(OSError):
                path.rmdir()


@asynccontextmanager
async def serving(proxy: SandboxProxy, channel: socket.socket) -> AsyncIterator[None]:
    """Serve the socket that the command sends through the channel, until the command has ended."""
    channel.setblocking(False)

    async def take() -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()

        def note() -> None:
            if not ready.done():
                ready.set_result(None)

        loop.add_reader(channel, note)
        try:
            await ready
        finally:
            loop.remove_reader(channel)
        _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
        if not descriptors:
            return
        server = await proxy.take(socket.socket(fileno=descriptors[0]))
        async with server:
            await server.serve_forever()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(take())
        try:
            yield
        finally:
            task.cancel()
