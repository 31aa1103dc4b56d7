"""The Python SDK waits for operations that are stuck and may go on by themselves. Answers and times are given."""

from __future__ import annotations

from types import SimpleNamespace

import pytest


@pytest.fixture
def waits(sdk, monkeypatch):
    """Gives a wait for an operation whose state and rows depend on the time. It returns its last state and the time."""
    from archipel_admin.models import OperationInfo, OperationKind, OperationState

    now = SimpleNamespace(s=0.0)

    def sleep(seconds: float) -> None:
        now.s += seconds

    monkeypatch.setattr(sdk, "time", SimpleNamespace(monotonic=lambda: now.s, sleep=sleep))

    def wait(kind: str, at, timeout_s: float = 3600):
        def call(_operation, id: str):
            state, rows = at(now.s)
            kinds, states = OperationKind(kind), OperationState(state)
            return OperationInfo(done=1, id=id, kind=kinds, problems=0, state=states, rows=rows)

        now.s = 0.0
        admin = sdk.Archipel(token="of-nobody")
        monkeypatch.setattr(admin, "call", call)
        return admin.wait_for_operation(kind, timeout_s).state.value, now.s

    return wait


@pytest.mark.parametrize("kind, seconds", [("anti-entropy", 30), ("lifecycle", 30), ("layout-change", 600)])
def test_a_wait_goes_on_for_a_while_and_ends_if_nothing_does(waits, kind, seconds):
    assert waits(kind, lambda _: ("stuck", 0)) == ("stuck", seconds)
    # It goes on in time.
    assert waits(kind, lambda s: ("stuck" if s < 20 else "running" if s < 25 else "idle", 0)) == ("idle", 25)
    # Rows move at first, and then no more.
    assert waits(kind, lambda s: ("stuck", min(int(s), 100))) == ("stuck", 100 + seconds)


def test_an_operation_that_cannot_go_on_by_itself_is_told_at_once(waits):
    assert waits("snapshot", lambda _: ("stuck", 0)) == ("stuck", 0)


def test_the_time_of_a_wait_is_its_limit(waits):
    assert waits("layout-change", lambda _: ("stuck", 0), timeout_s=10) == ("stuck", 10)
