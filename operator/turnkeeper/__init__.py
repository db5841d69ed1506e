"""turnkeeper: what was asked is taken, whoever dies."""

from importlib.metadata import version

__version__ = version("turnkeeper")
"""The version of the installed distribution; pyproject.toml holds the only copy."""
