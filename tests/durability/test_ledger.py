"""The ledger sees what a cut must not leave."""

from __future__ import annotations

from durability.ledger import ABSENT, Buffered, Ledger
from support.wire import Response

CUT = 1000.0


def ledger(*done: tuple[str, str, float | None]) -> Buffered:
    """Of writes: key, content, and how long before the cut they were acknowledged (None: not at all)."""
    made = Buffered()
    made.cut_at = CUT
    for key, state, age in done:

        def send(age=age):
            if age is None:
                raise OSError("cut")
            return Response(200, {"etag": f'"{state}"'}, b"")

        made.attempt(key, state, send)
        made.done[key.partition("/")[0]][-1].at = None if age is None else CUT - age
    return made


def test_buffered_the_last_second_may_be_undone_newest_first():
    done = [("w/a", "1", 9.0), ("w/b", "2", 0.9), ("w/a", "3", 0.5), ("w/b", "4", None)]
    for fine in (
        {"w/a": "3", "w/b": "4"},
        {"w/a": "3", "w/b": "2"},
        {"w/a": "1", "w/b": "2"},
        {"w/a": "1", "w/b": ABSENT},
    ):
        assert ledger(*done).judge_all(fine) == [], fine
    # The newer write is there, the older one is undone.
    assert "no first part" in ledger(*done).judge_all({"w/a": "3", "w/b": ABSENT})[0]
    # Neither old nor new.
    assert "w/a is torn" in ledger(*done).judge_all({"w/a": "torn", "w/b": "2"})[0]
    # It was acknowledged long ago.
    assert "9.0 s before the cut" in ledger(*done).judge_all({"w/a": ABSENT, "w/b": ABSENT})[0]


def test_buffered_what_was_seen_after_a_cut_stays():
    made = ledger(("w/a", "1", 0.5))
    assert made.judge_all({"w/a": "1"}) == []
    assert (made.undone, made.oldest) == (0, 0.0)
    assert "no first part" in made.judge_all({"w/a": ABSENT})[0]
    made = ledger(("w/a", "1", 0.5))
    assert made.judge_all({"w/a": ABSENT}) == []
    assert (made.undone, made.oldest) == (1, 0.5)


def test_fsync_nothing_acknowledged_may_be_undone():
    made = Ledger()
    made.attempt("w/a", "1", lambda: Response(200, {"etag": '"x"'}, b""))
    assert made.created() == {("w/a", "x")}
    assert made.judge_all({"w/a": ABSENT}) == ["w/a: acknowledged 1, found absent"]
