"""The version, alone: nothing imports the package's root to learn it."""

VERSION = "0.1.0"
