"""Many clients, one key: conditional writes have exactly one winner."""

import threading

from support.client import Client
from support.expect import answer

CLIENTS = 50
ROUNDS = 100


def race(server, credentials, rounds: int, attempt) -> list[list[tuple[int, bytes]]]:
    """Runs `attempt(client, round, me)` in all clients at once, round by round; returns (status, mine) of each."""
    results: list[list[tuple[int, bytes]]] = [[] for _ in range(rounds)]
    start = threading.Barrier(CLIENTS)
    failures: list[BaseException] = []

    def run(me: int) -> None:
        client = Client(server.endpoint, credentials, keep_alive=True)
        try:
            for number in range(rounds):
                start.wait(timeout=60)
                results[number].append(attempt(client, number, me))
        except BaseException as error:  # reported by the main thread
            failures.append(error)
            start.abort()
        finally:
            client.close()

    threads = [threading.Thread(target=run, args=(n,)) for n in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    return results


def test_put_if_absent_has_one_winner(server, credentials, raw, bucket):
    """50 clients, 100 rounds: one 200 each, all others 412, and the winner's content stays."""

    def attempt(client, number, me):
        mine = f"round {number} client {me}".encode()
        reply = client.put(bucket, f"lock-{number}", mine, [("If-None-Match", "*")])
        return reply.status, mine

    for number, answers in enumerate(race(server, credentials, ROUNDS, attempt)):
        winners = [mine for status, mine in answers if status == 200]
        others = {status for status, _ in answers if status != 200}
        assert len(winners) == 1, f"round {number}: {len(winners)} winners"
        assert others <= {412, 409}, f"round {number}: {others}"
        assert raw.get(bucket, f"lock-{number}").body == winners[0]


def test_compare_and_swap_counts_every_success(server, credentials, raw, bucket):
    """A counter raised by If-Match: its value is the number of successes, so no update is lost."""
    answer(raw.put(bucket, "counter", b"0"), 200)
    rounds = 20

    def attempt(client, _number, _me):
        now = client.get(bucket, "counter")
        raised = str(int(now.body) + 1).encode()
        return client.put(bucket, "counter", raised, [("If-Match", now.headers["etag"])]).status, raised

    answers = [a for one in race(server, credentials, rounds, attempt) for a in one]
    assert {status for status, _ in answers} <= {200, 412, 409}
    successes = sum(status == 200 for status, _ in answers)
    assert successes >= rounds
    assert int(raw.get(bucket, "counter").body) == successes


def test_create_bucket_race(server, credentials, raw, make_bucket):
    """However many create it, there is one bucket, and what was put in it stays."""
    base = make_bucket()

    def attempt(client, number, me):
        created = client.request("PUT", f"/{base}-{number}")
        put = client.put(f"{base}-{number}", f"k{me}", b"x")
        return (created.status, put.status), b""

    for number, answers in enumerate(race(server, credentials, 3, attempt)):
        assert {status for (status, _), _ in answers} <= {200, 409}
        assert {put for (_, put), _ in answers} == {200}
        listing = raw.request("GET", f"/{base}-{number}", [("list-type", "2")]).xml()
        assert len(list(listing.iter("Contents"))) == CLIENTS
        for me in range(CLIENTS):
            raw.delete(f"{base}-{number}", f"k{me}")
        answer(raw.request("DELETE", f"/{base}-{number}"), 204)
