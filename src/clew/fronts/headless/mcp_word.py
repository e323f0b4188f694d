"""The `mcp` command: MCP servers for clew, or clew as a server."""


def main(argv: list[str]) -> int:
    if argv[:1] == ["serve"]:
        from clew.fronts.headless.mcp_serve import main as serve

        return serve(argv[1:])
    from clew.commands.mcp import main as manage

    return manage(argv)
