"""deltalake (delta-rs): tables whose commits are conditional PUTs."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from support.expect import keys

COMMITS = 12


@pytest.fixture
def options(server):
    return {
        "AWS_ACCESS_KEY_ID": server.access_key,
        "AWS_SECRET_ACCESS_KEY": server.secret_key,
        "AWS_REGION": server.region,
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_ALLOW_HTTP": "true",
    }


@pytest.fixture
def place(bucket):
    return f"s3://{bucket}/lake/table"


def rows(*numbers: int, who: str = "one") -> pa.Table:
    return pa.table({"number": pa.array(numbers, pa.int64()), "who": pa.array([who] * len(numbers), pa.string())})


def contents(table: DeltaTable) -> list[tuple[str, int]]:
    found = table.to_pyarrow_table()
    return sorted(zip(found["who"].to_pylist(), found["number"].to_pylist()))


def test_versions_of_a_table(options, place):
    write_deltalake(place, rows(1, 2), storage_options=options)
    write_deltalake(place, rows(3), mode="append", storage_options=options)
    write_deltalake(place, rows(4, who="two"), mode="overwrite", storage_options=options)
    with pytest.raises(DeltaError, match="already exists"):
        write_deltalake(place, rows(5), storage_options=options)
    wanted = [[("one", 1), ("one", 2)], [("one", 1), ("one", 2), ("one", 3)], [("two", 4)]]
    for version, expected in enumerate(wanted):
        assert contents(DeltaTable(place, version=version, storage_options=options)) == expected
    table = DeltaTable(place, storage_options=options)
    assert [entry["version"] for entry in table.history()] == [2, 1, 0]
    table.restore(1)
    assert contents(DeltaTable(place, storage_options=options)) == wanted[1]


def test_changes_and_upkeep(options, place, s3, bucket):
    for number in range(5):
        write_deltalake(place, rows(number), mode="append", storage_options=options)
    table = DeltaTable(place, storage_options=options)
    table.delete("number = 0")
    table.update(updates={"who": "'two'"}, predicate="number = 1")
    merge = table.merge(rows(2, 9, who="new"), "target.number = source.number", source_alias="source", target_alias="target")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    wanted = [("new", 2), ("new", 9), ("one", 3), ("one", 4), ("two", 1)]
    assert contents(DeltaTable(place, storage_options=options)) == wanted
    table.optimize.compact()
    table.create_checkpoint()
    assert table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    stored = [key for key in keys(s3, bucket) if key.endswith(".parquet") and "_delta_log" not in key]
    table = DeltaTable(place, storage_options=options)
    assert contents(table) == wanted
    assert len(stored) == len(table.file_uris()) == 1


def test_two_writers_lose_no_commit(options, place, s3, bucket):
    write_deltalake(place, rows(0, who="nobody"), storage_options=options)
    failures: list[Exception] = []
    together = threading.Barrier(2)

    def writer(who: str) -> None:
        try:
            for number in range(COMMITS):
                # Both read the same version, so both try to write the same next one.
                together.wait(60)
                write_deltalake(place, rows(number, who=who), mode="append", storage_options=options)
        except Exception as error:
            failures.append(error)
            together.abort()

    threads = [threading.Thread(target=writer, args=(who,)) for who in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    table = DeltaTable(place, storage_options=options)
    assert table.version() == 2 * COMMITS
    assert contents(table) == [("nobody", 0), *((who, n) for who in ("one", "two") for n in range(COMMITS))]
    logged = [key for key in keys(s3, bucket, Prefix="lake/table/_delta_log/") if key.endswith(".json")]
    assert [int(key.rsplit("/", 1)[1].removesuffix(".json")) for key in logged] == list(range(2 * COMMITS + 1))


def test_one_of_two_conflicting_changes_fails(options, place):
    write_deltalake(place, rows(1, 2), storage_options=options)
    one, other = (DeltaTable(place, storage_options=options) for _ in range(2))
    one.delete("number = 1")
    with pytest.raises(CommitFailedError, match="concurrent transaction"):
        other.delete("number = 1")
    assert contents(DeltaTable(place, storage_options=options)) == [("one", 2)]
