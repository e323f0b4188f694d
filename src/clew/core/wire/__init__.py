"""The protocol between clew and a host program: lines of JSON both ways, their types and their bounds."""
