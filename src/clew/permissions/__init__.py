"""May this call run? Pure functions of (rules, request), the same for every tool, that say why."""
