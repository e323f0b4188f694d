"""Everything that a user types besides prompts: slash commands and the subcommands of `clew`."""
