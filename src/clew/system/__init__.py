"""Access to the machine: processes, the sandbox, the network, settings files, JSON-RPC, web pages."""
