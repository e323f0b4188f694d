"""The `clew mcp` command: manage the MCP servers that clew uses, or run clew as a server."""


def main(argv: list[str]) -> int:
    if argv[:1] == ["serve"]:
        from clew.fronts.headless.mcp_serve import main as serve

        return serve(argv[1:])
    from clew.commands.mcp import main as manage

    return manage(argv)
