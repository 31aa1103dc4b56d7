"""Go, which builds clients and servers of the tests."""

from __future__ import annotations

# All builds use the same flags, so that they share what they compile. Without optimisation they take less time.
ENVIRONMENT = {"GOFLAGS": "-mod=readonly '-gcflags=all=-N -l'", "GOTOOLCHAIN": "local"}


def test_command() -> list[str]:
    """Returns the command that runs a module's tests. `go vet` would read all of its dependencies, too."""
    return ["go", "test", "-count=1", "-v", "-vet=off", "./..."]
