"""Plugins: folders in the published layout that add commands, skills, agents, hooks, servers and
styles.
"""
