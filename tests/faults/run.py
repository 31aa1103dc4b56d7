"""Runs a cluster of real processes under load, breaks it, and judges what the clients saw. See `cargo xtask faults`.

Everything happens in namespaces of its own, which end with it. Exit status: 0 if nothing is wrong.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults import changes, checker, disks, final, losses, network, revoke, versions  # noqa: E402
from faults.cluster import BUCKET, Cluster, NotServing  # noqa: E402
from faults.history import History  # noqa: E402
from faults.injector import Injector, give_clock, stand_apart  # noqa: E402
from faults.workload import Worker, Workload  # noqa: E402

WORKERS = 8
MOST_NODES = 5  # of runs that change the layout: those beyond --nodes stand by at first
SHOWN = 5  # of each kind of trouble


class Run:
    """One cluster, its clients, and what went wrong."""

    def __init__(self, args, seed: int):
        self.args, self.seed = args, seed
        if args.dir:
            Path(args.dir).mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix="faults-", dir=args.dir))
        nodes = max(args.nodes, MOST_NODES) if args.scenario in ("losses", "grow") else args.nodes
        blocks = disks.DISKS if self.loses() else ()
        self.cluster = Cluster(self.folder, network.shared(nodes), args.log_level, args.nodes, blocks)
        for node in self.cluster.nodes:
            disks.mount(node) if self.loses() else give_clock(node)
        self.began = time.monotonic()
        self.events = open(self.folder / "events", "w")
        self.lock = threading.Lock()
        self.wrong: list[str] = []
        self.load: Workload | None = None
        self.workers: list[Worker] = []
        self.injectors: list[Injector | losses.Losses] = []

    def loses(self) -> bool:
        """Disks fail, fill up and are lost: each node has a file system of its own, and some nodes stand by."""
        return self.args.scenario in ("losses", "disk")

    def note(self, what: str) -> None:
        """Into the run's diary, with the clock of the history."""
        with self.lock:
            self.events.write(f"{time.monotonic():.3f} {what}\n")
            self.events.flush()
        if self.args.verbose:
            print(f"{time.monotonic() - self.began:8.1f} s  {what}", flush=True)

    def form(self, calm: bool = False) -> None:
        """`calm`: clients do nothing that may fail while nothing is broken."""
        self.cluster.form()
        self.load = Workload(
            [node.endpoint for node in self.cluster.nodes],
            self.cluster.credentials,
            BUCKET,
            fresh_connections=calm,
            writers=WORKERS if calm else 0,
            others=not calm,
            k2v=[node.k2v for node in self.cluster.nodes],
        )
        if self.load.others:
            self.make_versioned()
        self.note("formed")

    def make_versioned(self) -> None:
        client = self.load.client(0)
        enabled = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
        replies = [
            client.request("PUT", f"/{versions.BUCKET}"),
            client.request("PUT", f"/{versions.BUCKET}", [("versioning", "")], body=enabled),
        ]
        client.close()
        if any(reply.status != 200 for reply in replies):
            raise NotServing(f"no bucket with versions: {[reply.brief() for reply in replies]}")

    def start_workers(self, count: int = WORKERS, nodes: list[int] | None = None) -> list[Worker]:
        first = len(self.workers)
        new = [Worker(self.load, f"c{first + n}", self.seed * 1000 + first + n, nodes) for n in range(count)]
        for worker in new:
            worker.start()
        self.workers += new
        return new

    def stop_workers(self) -> None:
        stop(self.workers, 60)
        self.wrong += [f"{w.name}: {w.failure!r}" for w in self.workers if w.failure]
        self.wrong += [f"{w.name} did not end" for w in self.workers if w.is_alive()]

    def start_injectors(self) -> None:
        """Two, so that faults overlap; the second has longer rests."""
        for number, rest in enumerate([(0.5, 4), (4, 20)]):
            injector = Injector(self.cluster, self.seed * 10 + number, self.note, rest_s=rest)
            injector.start()
            self.injectors.append(injector)

    def stop_injectors(self, wait_s: float = 60) -> None:
        stop(self.injectors, wait_s)
        self.wrong += [f"{i.name}: {i.failure!r}" for i in self.injectors if i.failure]
        self.wrong += [f"{i.name} did not end" for i in self.injectors if i.is_alive()]
        self.cluster.network.end_all_cuts()
        self.note("the cuts have ended")

    def restart_all(self) -> None:
        for node in self.cluster.nodes:
            self.cluster.kill(node)
        for node in self.cluster.nodes:
            self.cluster.start(node)
        self.cluster.wait_serving()
        self.note("all restarted")

    def read_everything(self) -> None:
        """Reads all that is there through every node, into the history, until all see and list the same."""
        final.read_everything(self)

    def judge(self) -> bool:
        """Prints the verdict; True if nothing is wrong."""
        verdict = checker.check(self.load.history)
        self.load.history.save(self.folder / "history.jsonl")
        with open(self.folder / "latencies", "w") as out:
            out.writelines(f"{began:.3f} {took:.3f} {node} {what}\n" for began, took, what, node in self.load.latencies)
        wrong = self.wrong + [f"unexpected answer: {u}" for u in self.load.unexpected] + verdict.violations
        wrong += [f"not decided: {key}" for key in verdict.undecided]
        (self.folder / "wrong").write_text("\n".join(wrong))
        for what in wrong[:SHOWN]:
            print(what[:6000])
        if len(wrong) > SHOWN:
            print(f"… and {len(wrong) - SHOWN} more, in {self.folder}/wrong")
        self.print_counts(verdict)
        return not wrong

    def print_counts(self, verdict: checker.Verdict) -> None:
        unknown = sum(op.outcome == "unknown" for op in self.load.history.operations)
        print(
            f"{verdict.operations} operations on {verdict.keys} keys ({unknown} of unknown outcome), "
            f"{verdict.listings} listings; {len(verdict.violations)} violations, {len(verdict.undecided)} undecided"
        )
        for (kind, answer), count in sorted(self.load.answers.items()):
            print(f"  {kind:24} {answer:32} {count}")
        faults = sum((Counter(i.counts) for i in self.injectors), Counter())
        if faults:
            print("faults: " + ", ".join(f"{name} {count}" for name, count in sorted(faults.items())))

    def close(self, good: bool) -> None:
        self.cluster.stop_all()
        self.events.close()
        for node in self.cluster.nodes if self.loses() else []:
            disks.unmount(node)
        if good and not self.args.keep:
            shutil.rmtree(self.folder)
        else:
            print(f"logs, events, history: {self.folder}")


def stop(threads: list, wait_s: float) -> None:
    for thread in threads:
        thread.done.set()
    end = time.monotonic() + wait_s
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))


def under_faults(run: Run) -> None:
    """Faults at random for the time asked for, under clocks that stand apart."""
    skews = stand_apart(run.cluster, run.seed)
    run.note(f"clocks: {', '.join(f'{skew:+.1f} s' for skew in skews) or 'all as this machine'}")
    run.form()
    run.start_workers()
    run.start_injectors()
    time.sleep(run.args.seconds)
    run.stop_injectors()
    run.stop_workers()
    run.restart_all()
    run.read_everything()


def rolling(run: Run) -> None:
    """Each node is restarted in turn, again and again; no request that a node took may fail."""
    run.form(calm=True)
    run.start_workers()
    end, rounds = time.monotonic() + run.args.seconds, 0
    while time.monotonic() < end or rounds == 0:
        for node in run.cluster.nodes:
            run.note(f"restart {node.name}")
            run.cluster.stop(node)
            run.cluster.start(node)
            run.cluster.wait_writes(node)
            time.sleep(1)
        rounds += 1
    run.stop_workers()
    run.read_everything()
    print(f"{rounds} rolling restarts, {len(run.load.failures)} failed requests")
    run.wrong += [f"failed during a rolling restart: {failure}" for failure in run.load.failures]


def zone_cut(run: Run) -> None:
    """The last zone is cut off: the others go on, and it neither takes writes nor serves anything stale."""
    run.form(calm=True)
    away = run.cluster.nodes[-1]
    run.start_workers(WORKERS - 4, [n.number for n in run.cluster.nodes[:-1]])
    run.start_workers(4, [away.number])
    time.sleep(3)
    run.cluster.network.isolate(away.number)
    cut = time.monotonic()
    run.note("cut off")
    time.sleep(run.args.seconds)
    restored = time.monotonic()
    run.cluster.network.join(away.number)
    run.note("the cuts have ended")
    run.cluster.wait_writes(away)
    print(f"the zone serves again {time.monotonic() - restored:.1f} s after it came back")
    time.sleep(3)
    run.stop_workers()
    run.read_everything()
    judge_cut(run, away.number, cut, restored)


def judge_cut(run: Run, away: int, cut: float, restored: float) -> None:
    during = [row for row in run.load.latencies if row[0] > cut and row[0] + row[1] < restored]
    elsewhere = [row for row in during if row[3] != away]
    failed = [row for row in elsewhere if not served(row)]
    at_away = [row for row in during if row[3] == away]
    got = [row for row in at_away if served(row)]
    print(f"while cut off: {len(elsewhere)} answers from the others, {len(failed)} of them failures; slowest {slowest(elsewhere)}")
    print(f"the one cut off: {len(at_away)} answers, {len(got)} of them not refusals")
    run.wrong += [f"failed at a node that was not cut off: {row}" for row in failed]
    run.wrong += [f"served by the node that was cut off: {row}" for row in got]
    if not elsewhere or not at_away:
        run.wrong.append("nothing was asked while the zone was cut off")


def served(row: tuple) -> bool:
    """It was answered, and not by a refusal of the server."""
    answer = row[2].rsplit(" ", 1)[-1]
    return "200" in row[2] or "204" in row[2] or "404" in row[2] or "412" in row[2] or answer == "ConditionalRequestConflict"


def slowest(rows: list[tuple]) -> str:
    return f"{max((row[1] for row in rows), default=0):.3f} s"


def dead_peer(run: Run) -> None:
    """One node is killed: what that costs requests at the others, before, at once, and after five seconds."""
    run.form(calm=True)
    dead = run.cluster.nodes[-1]
    run.start_workers(4, [n.number for n in run.cluster.nodes[:-1]])
    time.sleep(run.args.seconds / 2)
    killed = time.monotonic()
    run.cluster.kill(dead)
    run.note(f"killed {dead.name}")
    time.sleep(5 + run.args.seconds / 2)
    run.stop_workers()
    rows = run.load.latencies
    for what, least, most in [("before", 0, killed), ("first 5 s", killed, killed + 5), ("later", killed + 5, 1e18)]:
        print_latencies(what, [row for row in rows if least <= row[0] < most])
    run.wrong += [f"failed: {failure}" for failure in run.load.failures]
    run.cluster.start(dead)
    run.cluster.wait_serving()
    run.read_everything()


def print_latencies(what: str, rows: list[tuple]) -> None:
    for kind in ("GET", "PUT write", "PUT swap", "UploadPart", "LIST"):
        times = sorted(row[1] * 1000 for row in rows if row[2].startswith(f"{kind} 200"))
        if times:
            middle, high = times[len(times) // 2], times[int(len(times) * 0.99)]
            print(f"{what:10} {kind:10} {len(times):6}  median {middle:.1f} ms, 99 % {high:.1f} ms, most {times[-1]:.1f} ms")


SCENARIOS = {"faults": under_faults, "losses": losses.lose, "disk": losses.lose_disk, "grow": changes.grow, "return": changes.come_back, "space": changes.space, "rolling": rolling, "cut": zone_cut, "dead": dead_peer, "revoke": revoke.revoke}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", choices=SCENARIOS, default="faults")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--clients", type=int, default=WORKERS, help="of grow")
    parser.add_argument("--objects", type=int, default=10_000, help="that are there when a node goes away (return)")
    parser.add_argument("--gigabytes", type=float, default=1, help="that are written and deleted (space)")
    parser.add_argument("--blocks", type=int, default=50_000, help="on the disk that is lost (disk)")
    parser.add_argument("--log-level", default="info")
    parser.add_argument("--dir", default=None, help="where the nodes' folders are made")
    parser.add_argument("--keep", action="store_true", help="keep logs and history of good runs too")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--check", type=Path, help="only judge this history again")
    args = parser.parse_args()
    if args.check:
        verdict = checker.check(History.load(args.check))
        print("\n".join(verdict.violations + verdict.undecided), json.dumps({"operations": verdict.operations}))
        return 0 if verdict.good() else 1
    why_not = None if network.entered() else network.why_not()
    if why_not:
        print(why_not)
        return 3
    network.enter()
    first = random.SystemRandom().randrange(1_000_000) if args.seed is None else args.seed
    bad = [seed for seed in range(first, first + args.runs) if not one(args, seed)]
    print(f"{args.scenario}: {args.runs - len(bad)} of {args.runs} runs without a violation" + (f"; repeat: --seed {bad}" if bad else ""))
    return 1 if bad else 0


def one(args, seed: int) -> bool:
    """One run; True if nothing is wrong."""
    print(f"seed {seed}: {args.scenario}, {args.nodes} nodes, {args.seconds:.0f} s", flush=True)
    run, good = Run(args, seed), False
    try:
        try:
            SCENARIOS[args.scenario](run)
        except NotServing as error:
            run.wrong.append(str(error))
            stop(run.workers + run.injectors, 30)
        good = run.judge() if run.load else print("\n".join(run.wrong)) is not None
    finally:
        run.close(good)
    print(f"seed {seed}: {'good' if good else 'WRONG'}", flush=True)
    return good


if __name__ == "__main__":
    sys.exit(main())
