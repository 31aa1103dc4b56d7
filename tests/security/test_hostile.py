"""Hostile clients beside an ordinary one, in short: it is served, and memory stays bounded. `hostile.py` measures the times."""

from __future__ import annotations

import pytest
from security import hostile

pytestmark = pytest.mark.process


@pytest.mark.parametrize("name", hostile.ATTACKS)
def test_ordinary_client_is_served_beside(tmp_path, name):
    with hostile.under_attack(tmp_path, 300) as target:
        target.floods = 1
        row = hostile.attack(name, target, seconds=0, least=60)
    assert not row.failures
    assert row.peak_mb < hostile.MOST_MB
