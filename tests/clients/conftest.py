"""Fixtures of the client tests; what they use stands in `support.tools`."""

from support.tools import aws_env, files  # noqa: F401
