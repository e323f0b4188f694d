"""What touches the machine: processes, walls, the network, settings files, JSON-RPC, pages of the web."""
