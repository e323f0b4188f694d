"""The tables of the server's database, as migrations.

A published migration is never changed; a new one is appended instead. The statements are SQLite's;
`postgres` translates the types.
"""

from collections.abc import Iterator

from clew.core.messages.errors import UserError

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE session (
            id TEXT PRIMARY KEY, title TEXT NOT NULL, config TEXT NOT NULL,
            epoch INTEGER NOT NULL, last_seq INTEGER NOT NULL, state TEXT NOT NULL,
            beat_at INTEGER NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL)""",
        # Every frame that a worker or viewer sent, numbered per session.
        """CREATE TABLE event (
            session TEXT NOT NULL, seq INTEGER NOT NULL, id TEXT NOT NULL, source TEXT NOT NULL,
            kind TEXT NOT NULL, body BLOB NOT NULL, created_at INTEGER NOT NULL,
            status TEXT NOT NULL, PRIMARY KEY (session, seq))""",
        "CREATE UNIQUE INDEX event_id ON event (session, id)",
        # A question of a worker. The first answer wins; `answer` is the ID of its event.
        """CREATE TABLE question (
            session TEXT NOT NULL, request TEXT NOT NULL, seq INTEGER NOT NULL,
            answer TEXT NOT NULL, answered_by TEXT NOT NULL, answered_at INTEGER NOT NULL,
            PRIMARY KEY (session, request))""",
        """CREATE TABLE worker (
            token TEXT PRIMARY KEY, session TEXT NOT NULL, epoch INTEGER NOT NULL,
            expires_at INTEGER NOT NULL)""",
        # A transcript. `chain` is the hash of all its lines.
        """CREATE TABLE transcript (
            project TEXT NOT NULL, session TEXT NOT NULL, agent TEXT NOT NULL,
            lines INTEGER NOT NULL, chain BLOB NOT NULL, updated_at INTEGER NOT NULL,
            PRIMARY KEY (project, session, agent))""",
        """CREATE TABLE line (
            project TEXT NOT NULL, session TEXT NOT NULL, agent TEXT NOT NULL,
            seq INTEGER NOT NULL, uuid TEXT, body BLOB NOT NULL, chain BLOB NOT NULL,
            PRIMARY KEY (project, session, agent, seq))""",
        "CREATE UNIQUE INDEX line_uuid ON line (project, session, agent, uuid)",
        """CREATE TABLE device (
            id TEXT PRIMARY KEY, name TEXT NOT NULL, token TEXT NOT NULL UNIQUE,
            scopes TEXT NOT NULL, created_at INTEGER NOT NULL, revoked_at INTEGER)""",
        "CREATE TABLE blob (sha256 TEXT PRIMARY KEY, body BLOB NOT NULL)",
    ),
    # Owners. Projects of transcripts begin with the owner's name and a colon.
    (
        "ALTER TABLE device ADD COLUMN owner TEXT NOT NULL DEFAULT 'owner'",
        "ALTER TABLE session ADD COLUMN owner TEXT NOT NULL DEFAULT 'owner'",
        "ALTER TABLE worker ADD COLUMN device TEXT NOT NULL DEFAULT ''",
        "UPDATE line SET project = 'owner:' || project",
        "UPDATE transcript SET project = 'owner:' || project",
    ),
    (
        """CREATE TABLE pairing (
            claim TEXT PRIMARY KEY, owner TEXT NOT NULL, scopes TEXT NOT NULL, name TEXT NOT NULL,
            address TEXT NOT NULL, device TEXT NOT NULL, expires_at INTEGER NOT NULL)""",
    ),
    # The name of an event's sender. Machines that start sessions have the kind "host".
    (
        "ALTER TABLE event ADD COLUMN sender TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE session ADD COLUMN kind TEXT NOT NULL DEFAULT ''",
    ),
    # Links to one session.
    (
        """CREATE TABLE share (
            id TEXT PRIMARY KEY, session TEXT NOT NULL, owner TEXT NOT NULL,
            token TEXT NOT NULL UNIQUE, name TEXT NOT NULL, scopes TEXT NOT NULL,
            made_by TEXT NOT NULL, expires_at INTEGER NOT NULL, revoked_at INTEGER)""",
    ),
    # The sealed data that a pairing gives to the new device.
    ("ALTER TABLE pairing ADD COLUMN gift TEXT NOT NULL DEFAULT ''",),
    # The worker that has the session's epoch, by the name that it gives itself.
    ("ALTER TABLE session ADD COLUMN worker TEXT NOT NULL DEFAULT ''",),
    # Web Push: the browsers that want it, and the key pair by which push services know this server.
    (
        """CREATE TABLE push (
            device TEXT PRIMARY KEY, owner TEXT NOT NULL, endpoint TEXT NOT NULL,
            receiver TEXT NOT NULL, secret TEXT NOT NULL, detail TEXT NOT NULL,
            subject TEXT NOT NULL)""",
        "CREATE TABLE push_key (private TEXT NOT NULL)",
    ),
)
VERSION_TABLE = "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)"


def require_version(version: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Return the migrations that a database lacks, with their numbers.

    Raise `UserError` if a newer clew created the database.
    """
    if version > len(MIGRATIONS):
        raise UserError(
            f"the database has schema version {version}, but this version of clew supports only up"
            f" to {len(MIGRATIONS)}; update clew"
        )
    return iter(list(enumerate(MIGRATIONS, 1))[version:])
