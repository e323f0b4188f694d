"""Access to the machine: processes, the sandbox, the network, settings, JSON-RPC, web pages."""
