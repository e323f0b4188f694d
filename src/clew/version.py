"""The version of clew, in a separate module so that reading it imports nothing else."""

VERSION = "0.1.0"
# The name that programs expect in a package.
__version__ = VERSION
