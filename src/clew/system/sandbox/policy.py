"""The permissions of a sandboxed command, as one value. Does no I/O.

Owns the `sandbox` object of settings, and the rule that project settings can only tighten the
sandbox: a model that can write those files must not be able to open its own sandbox.

Decision: docs/decisions/131-sandbox.md
"""

import posixpath
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from clew.core.hosts import spell_host
from clew.system.config.layers import (
    OF_THE_FOLDER,
    Layer,
    narrow_sandbox,
    order_layers,
    select_usable,
)
from clew.system.config.settings import read_object


class FilesystemSettings(Struct, frozen=True, kw_only=True):
    """The `sandbox.filesystem` object: files and folders, with absolute paths after parsing."""

    write: tuple[str, ...] = field(name="allowWrite", default=())
    no_write: tuple[str, ...] = field(name="denyWrite", default=())
    no_read: tuple[str, ...] = field(name="denyRead", default=())
    read: tuple[str, ...] = field(name="allowRead", default=())


class NetworkSettings(Struct, frozen=True, kw_only=True):
    """The `sandbox.network` object: the names of hosts.

    `*.example.com` matches the subdomains of example.com, and `*` matches every host.
    """

    domains: tuple[str, ...] = field(name="allowedDomains", default=())
    no_domains: tuple[str, ...] = field(name="deniedDomains", default=())
    unix_sockets: bool = field(name="allowAllUnixSockets", default=False)


class SandboxSettings(Struct, frozen=True, kw_only=True):
    """The `sandbox` object.

    If `enabled` is not set, the sandbox is on in auto and acceptEdits mode if a backend works.
    """

    enabled: bool | None = None
    must_work: bool | None = field(name="failIfUnavailable", default=None)
    spares_questions: bool | None = field(name="autoAllowBashIfSandboxed", default=None)
    excluded: tuple[str, ...] = field(name="excludedCommands", default=())
    # Variables that commands which run without asking may see. `NAME_*` matches all with that
    # prefix.
    variables: tuple[str, ...] = field(name="allowEnvironment", default=())
    files: FilesystemSettings = field(name="filesystem", default=FilesystemSettings())
    network: NetworkSettings = NetworkSettings()


def read_settings(layers: Iterable[Layer], *, home: str) -> tuple[SandboxSettings, tuple[str, ...]]:
    """Return the sandbox settings of all active layers, and the problems in them."""
    settings = SandboxSettings()
    faults: list[str] = []
    for layer in reversed(order_layers(layers)):
        sandbox = read_object(select_usable(layer), "sandbox")
        if not sandbox:
            continue
        where = layer.file or f"({layer.scope})"
        if layer.scope in OF_THE_FOLDER:
            sandbox, widening = narrow_sandbox(sandbox)
            faults += [
                f"{where}: sandbox.{name}: ignored because project settings can only make the sandbox stricter"
                for name in widening
            ]
        try:
            read = msgspec.convert(sandbox, SandboxSettings)
        except msgspec.ValidationError as error:
            # It is unknown what the invalid object would have restricted, so the sandbox is on,
            # without additional permissions.
            what = str(error).replace("$.", "")
            faults.append(
                f"{where}: sandbox: {what} (this object is ignored, and the sandbox is on)"
            )
            settings = replace(settings, enabled=True)
            continue
        settings = joined(settings, placed(read, layer.root, home))
    return settings, tuple(faults)


def placed(settings: SandboxSettings, root: str, home: str) -> SandboxSettings:
    """Return the settings of one layer with absolute paths."""

    def each(paths: Sequence[str]) -> tuple[str, ...]:
        return tuple(absolute(path, root, home) for path in paths)

    files = settings.files
    return replace(
        settings,
        files=FilesystemSettings(
            write=each(files.write),
            no_write=each(files.no_write),
            no_read=each(files.no_read),
            read=each(files.read),
        ),
    )


def absolute(path: str, root: str, home: str) -> str:
    """Resolve a path in the settings.

    `~/x` is resolved in the home folder, and any other relative path in the layer's folder. `/x`
    and `//x` are absolute.
    """
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    return posixpath.normpath(posixpath.join(root, path)).replace("//", "/")


def joined(below: SandboxSettings, above: SandboxSettings) -> SandboxSettings:
    """Merge two layers. The higher layer's single values win; lists contain the entries of both."""

    return SandboxSettings(
        enabled=below.enabled if above.enabled is None else above.enabled,
        must_work=below.must_work if above.must_work is None else above.must_work,
        spares_questions=(
            below.spares_questions if above.spares_questions is None else above.spares_questions
        ),
        excluded=both(above.excluded, below.excluded),
        variables=both(above.variables, below.variables),
        files=FilesystemSettings(
            write=both(above.files.write, below.files.write),
            no_write=both(above.files.no_write, below.files.no_write),
            no_read=both(above.files.no_read, below.files.no_read),
            read=both(above.files.read, below.files.read),
        ),
        network=NetworkSettings(
            domains=both(above.network.domains, below.network.domains),
            no_domains=both(above.network.no_domains, below.network.no_domains),
            unix_sockets=above.network.unix_sockets or below.network.unix_sockets,
        ),
    )


def both(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


class SandboxPolicy(Struct, frozen=True, kw_only=True):
    """The policy that a sandbox is built from, with real, absolute paths.

    Entries for deeper paths override entries for the folders above them.
    """

    write: tuple[str, ...]
    no_write: tuple[str, ...] = ()
    no_read: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    no_domains: tuple[str, ...] = ()
    unix_sockets: bool = False
    # For a command that runs without asking: it may read, and write to its own temporary folder,
    # but it cannot use the network.
    is_read_only: bool = False

    @property
    def has_network(self) -> bool:
        return bool(self.domains)

    def may_write(self, path: str) -> bool:
        return is_written(dict(self.written), path)

    @property
    def written(self) -> list[tuple[str, bool]]:
        """Each place, paired with whether it may be written.

        Entries that override others come later.
        """
        pairs = [*((path, True) for path in self.write), *((path, False) for path in self.no_write)]
        return sorted(pairs, key=lambda pair: (pair[0].rstrip("/").count("/"), not pair[1]))

    def may_read(self, path: str) -> bool:
        return not covers(self.no_read, path) or covers(self.read, path)

    def may_reach(self, host: str) -> bool:
        """Return whether a command may connect to a host. Denied domains override allowed ones."""
        name = spell_host(host) or host.lower()
        if any(is_domain(pattern, name) for pattern in self.no_domains):
            return False
        return any(is_domain(pattern, name) for pattern in self.domains)


def is_written(places: Mapping[str, bool], path: str) -> bool:
    """Return whether a path may be written; the deepest place that contains the path decides."""
    place = path
    while place not in places:
        if place in ("", "/"):
            return False
        place = place.rpartition("/")[0] or "/"
    return places[place]


def covers(roots: Iterable[str], path: str) -> bool:
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def is_domain(pattern: str, name: str) -> bool:
    wanted = spell_host(pattern) or pattern.lower()
    if wanted == "*":
        return True
    if wanted.startswith("*."):
        return name.endswith(wanted[1:]) and len(name) > len(wanted) - 1
    return name == wanted
