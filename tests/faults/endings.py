"""Judges how shared uploads ended: at most one completion or abort of an upload takes effect."""

from __future__ import annotations

from faults.history import ABORT, COMPLETE, FAILED, LOOK, NEVER, OK, UNKNOWN, WRITE, Ending, Operation


def by_upload(endings: list[Ending]) -> dict[str, list[Ending]]:
    found: dict[str, list[Ending]] = {}
    for ending in endings:
        found.setdefault(ending.upload, []).append(ending)
    return found


def as_writes(endings: list[Ending]) -> list[Operation]:
    """Returns completions as writes of their keys: for each upload one, at some moment before the first one that was
    acknowledged; without an acknowledgement perhaps one."""
    writes = []
    for tried in by_upload(endings).values():
        completions = [one for one in tried if one.kind == COMPLETE and one.outcome != FAILED]
        if not completions:
            continue
        first = min(completions, key=lambda one: one.called)
        answered = min((one.answered for one in completions if one.outcome == OK), default=NEVER)
        outcome = UNKNOWN if answered == NEVER else OK
        write = Operation(WRITE, first.key, first.called, answered, outcome, first.value, client=first.client, node=first.node)
        write.note = "completion of a shared upload"
        writes.append(write)
    return writes


def wrong_endings(endings: list[Ending]) -> list[str]:
    """Uploads of which a completion and an abort were acknowledged, that went on after their end, or ended by themselves."""
    return [problem for upload, tried in sorted(by_upload(endings).items()) if (problem := of_upload(upload, tried))]


def of_upload(upload: str, tried: list[Ending]) -> str | None:
    done = [one for one in tried if one.kind != LOOK and one.outcome == OK]
    if {one.kind for one in done} == {COMPLETE, ABORT}:
        return f"upload {upload} was completed and aborted:\n{shown(tried)}"
    ended = min((one.answered for one in done), default=NEVER)
    for look in (one for one in tried if one.kind == LOOK and one.outcome == OK):
        if look.called > ended:
            return f"upload {upload} went on after its end:\n{shown(tried)}"
    could_end = min((one.called for one in tried if one.kind != LOOK and one.outcome != FAILED), default=NEVER)
    for one in tried:
        if one.outcome == FAILED and one.answered < could_end:
            return f"upload {upload} ended though nobody ended it:\n{shown(tried)}"
    return None


def shown(tried: list[Ending]) -> str:
    lines = []
    for one in sorted(tried, key=lambda one: one.called):
        answered = "never" if one.answered == NEVER else f"{one.answered:.4f}"
        lines.append(f"  {one.called:.4f} – {answered} {one.client} node {one.node}: {one.kind} {one.key} → {one.outcome}")
    return "\n".join(lines)
