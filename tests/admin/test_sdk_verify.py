"""The Python SDK and a verification that does not come to its end. The answers are given: no node is asked."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest


@pytest.fixture
def verifying(sdk, monkeypatch):
    """Gives a client whose node tells these states of the verification, one after the other."""
    from archipel_admin.models import OperationInfo, OperationKind, OperationState

    monkeypatch.setattr(sdk, "time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: None))

    def given(*states: str, **more):
        told = [
            OperationInfo(
                done=1,
                id="verification",
                kind=OperationKind("verification"),
                problems=0,
                state=OperationState(state),
                **more,
            )
            for state in states
        ]

        def call(_operation, *path, **_parameters):
            """Takes the request to begin, and tells the next state to each look at the operation."""
            return told.pop(0) if path else None

        admin = sdk.Archipel(token="of-nobody")
        monkeypatch.setattr(admin, "call", call)
        return admin, told

    return given


def test_a_verification_that_ends_is_told(verifying):
    admin, rest = verifying("running", "running", "done", trouble="a part could not be checked")
    told = admin.verify()
    assert (told.state.value, told.trouble, rest) == ("done", "a part could not be checked", [])


def test_a_node_that_does_not_answer_once_is_asked_again(verifying):
    admin, rest = verifying("unknown", "running", "unknown", "done")
    assert admin.verify().state.value == "done"
    assert rest == []


@pytest.mark.parametrize("state", ["idle", "stuck"])
def test_a_verification_without_an_end_is_not_taken_for_fine(verifying, state):
    """It is idle after the node started again, for example: its number of problems is 0."""
    admin, rest = verifying("running", state)
    with pytest.raises(RuntimeError, match=f"the verification is {state}"):
        admin.verify()
    assert rest == []


def test_an_operation_that_stays_unknown_is_not_waited_for_without_end(verifying):
    admin, _ = verifying("unknown", "done")
    with pytest.raises(TimeoutError, match="still runs"):
        admin.verify(timeout_s=0)
