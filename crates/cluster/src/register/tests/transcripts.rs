//! Transcripts: what an operation sends, what replicas answer, and how it ends, as text.
//!
//! The files are in `testdata/register`. A changed behaviour is a difference there:
//! `REWRITE=1 cargo test -p archipel-cluster transcripts` rewrites the files.
//!
//! | command | what it does |
//! |---|---|
//! | `replicas n=3` | begins with empty replicas |
//! | `layouts old=(0,1,2) new=(1,2,3)` | two layout versions are live from now on |
//! | `clock node=1 ms=2000` | sets the clock of a coordinator's node; all begin at 1000 |
//! | `read op=r node=1` | starts a read |
//! | `write op=w node=1 value=7` | starts a write; without a value, a deletion; with `yields`, of content in other rows |
//! | `update op=u node=1 if=absent value=7` | starts a conditional write: `absent`, `present`, `always`, `never` |
//! | `deliver op=w to=(0,2)` | replicas get the pending requests and answer; without `to`, all |
//! | `fail op=w to=1` | the request does not arrive, and the coordinator knows |
//! | `timeout op=w`, `resume op=w`, `give-up op=w` | drives the coordinator |
//! | `spread from=0 to=1` | anti-entropy; with `settled`, of a version that a quorum holds |
//! | `restart replica=0` | the replica forgets what it accepted |
//! | `fence closed` | the guarding row is not live any more |
//! | `rows` | shows what each replica holds |

use std::collections::BTreeMap;
use std::fmt::Write;

use archipel_base::{Id, Stamp, Writer};
use datadriven::TestCase;

use super::Replicas;
use crate::register::coordinator::{Decision, Operation, Outcome, Output, Repeat, Start};
use crate::register::message::{Answer, Request, Version};
use crate::register::quorum::{Quorums, ReplicaSet};
use crate::register::replica::{self, Bounds};
use crate::register::rules::Rules;

#[test]
fn transcripts() {
    datadriven::walk("testdata/register", |file| {
        let mut world = World::new(3);
        file.run(|case| world.carry_out(case));
    });
}

/// The clock of a node: each stamp is a millisecond of its own, so that it is easy to read.
struct NodeClock {
    node: u64,
    millis: u64,
}

impl NodeClock {
    fn next(&mut self) -> impl FnMut(Stamp) -> Stamp + '_ {
        |seen| {
            self.millis = self.millis.max(seen.millis()) + 1;
            Stamp::new(self.millis, 0, Writer(self.node))
        }
    }
}

struct Running {
    node: u64,
    operation: Operation<u32>,
    /// Requests that no replica has got yet.
    pending: Vec<(usize, u32, Request<u32>)>,
    condition: String,
    value: Option<u32>,
}

struct World {
    replicas: Replicas,
    quorums: Quorums,
    clocks: BTreeMap<u64, NodeClock>,
    running: BTreeMap<String, Running>,
    /// The names of the operations, by the id of their write.
    names: BTreeMap<Id, String>,
}

impl World {
    fn new(n: usize) -> World {
        let mut replicas = Replicas::new(n);
        replicas.now = 1_000_000;
        World {
            replicas,
            quorums: Quorums::majority_of(n),
            clocks: BTreeMap::new(),
            running: BTreeMap::new(),
            names: BTreeMap::new(),
        }
    }

    fn carry_out(&mut self, case: &mut TestCase) -> String {
        let mut out = String::new();
        match case.directive.as_str() {
            "replicas" => *self = World::new(number(case, "n") as usize),
            "layouts" => {
                let versions = ["old", "new"].map(|name| members(case, name));
                self.quorums = Quorums::of_versions(versions.into());
            }
            "clock" => {
                let (node, millis) = (number(case, "node"), number(case, "ms"));
                self.clock(node).millis = millis;
            }
            "read" | "write" | "update" => self.start(case, &mut out),
            "deliver" | "fail" => self.deliver(case, &mut out),
            "timeout" | "resume" | "give-up" => self.drive(case, &mut out),
            "spread" => self.spread(case, &mut out),
            "restart" => self.replicas.restart(number(case, "replica") as usize),
            "fence" => {
                self.replicas.guard_holds = !case.take_flag("closed").unwrap();
            }
            "rows" => self.show_rows(&mut out),
            other => panic!("unknown command: {other}"),
        }
        case.expect_empty().unwrap();
        if out.is_empty() {
            out.push_str("ok\n");
        }
        out
    }

    fn clock(&mut self, node: u64) -> &mut NodeClock {
        let fresh = NodeClock { node, millis: 1000 };
        self.clocks.entry(node).or_insert(fresh)
    }

    fn start(&mut self, case: &mut TestCase, out: &mut String) {
        let name: String = case.take_arg("op").unwrap();
        let node = number(case, "node");
        let value = case.try_take_arg("value").unwrap();
        let condition: Option<String> = case.try_take_arg("if").unwrap();
        let (guarded, yields) = (flag(case, "guarded"), flag(case, "yields"));
        let id = Id([self.names.len() as u8 + 1; 16]);
        self.names.insert(id, name.clone());
        let start = Start {
            rules: Rules::CORRECT,
            quorums: self.quorums.clone(),
        };
        let clock = self.clock(node);
        let (operation, outputs) = match case.directive.as_str() {
            "read" => Operation::read(start),
            "write" => Operation::write(start, id, value, guarded, &mut clock.next()),
            _ => Operation::update(start, id, guarded, &mut clock.next()),
        };
        let running = Running {
            node,
            operation: operation.repeating(if yields {
                Repeat::UnlessOvertaken
            } else {
                Repeat::Always
            }),
            pending: Vec::new(),
            condition: condition.unwrap_or_default(),
            value,
        };
        self.running.insert(name.clone(), running);
        self.handle(&name, outputs, out);
    }

    fn deliver(&mut self, case: &mut TestCase, out: &mut String) {
        let name: String = case.take_arg("op").unwrap();
        let to: Option<Vec<usize>> = case.try_take_args("to").unwrap();
        let fails = case.directive == "fail";
        let running = self.running.get_mut(&name).expect("a known operation");
        let chosen = |to: &Option<Vec<usize>>, replica| match to {
            Some(list) => list.contains(&replica),
            None => true,
        };
        let (now, later): (Vec<_>, Vec<_>) = std::mem::take(&mut running.pending)
            .into_iter()
            .partition(|(replica, ..)| chosen(&to, *replica));
        running.pending = later;
        for (replica, round, request) in now {
            let answer = (!fails).then(|| self.replicas.answer(replica, request));
            match &answer {
                Some(answer) => writeln!(out, "{replica}: {}", self.answer_text(answer)).unwrap(),
                None => writeln!(out, "{replica}: unreachable").unwrap(),
            }
            let running = self.running.get_mut(&name).expect("a known operation");
            let fresh = NodeClock {
                node: running.node,
                millis: 1000,
            };
            let clock = self.clocks.entry(running.node).or_insert(fresh);
            let outputs = match answer {
                Some(answer) => {
                    running
                        .operation
                        .on_answer(replica, round, answer, &mut clock.next())
                }
                None => running
                    .operation
                    .on_failure(replica, round, &mut clock.next()),
            };
            self.handle(&name, outputs, out);
        }
    }

    fn drive(&mut self, case: &mut TestCase, out: &mut String) {
        let name: String = case.take_arg("op").unwrap();
        let node = self.running[&name].node;
        let mut clock = self.clocks.remove(&node).expect("a known node");
        let operation = &mut self.running.get_mut(&name).unwrap().operation;
        let outputs = match case.directive.as_str() {
            "timeout" => operation.on_timeout(&mut clock.next()),
            "resume" => operation.resume(&mut clock.next()),
            _ => operation.give_up(),
        };
        self.clocks.insert(node, clock);
        self.handle(&name, outputs, out);
    }

    /// Notes and shows what an operation wants. Conditions are judged at once.
    fn handle(&mut self, name: &str, outputs: Vec<Output<u32>>, out: &mut String) {
        for output in outputs {
            match output {
                Output::Send { to, round, request } => {
                    let text = self.request_text(&request);
                    writeln!(out, "{name} round {round} asks {to}: {text}").unwrap();
                    let running = self.running.get_mut(name).expect("a known operation");
                    running.pending.push((to, round, request));
                }
                Output::Bury { .. } => panic!("no replica keeps anything"),
                Output::Decide(version) => {
                    let running = self.running.get_mut(name).expect("a known operation");
                    let holds = match running.condition.as_str() {
                        "absent" => version.value.is_none(),
                        "present" => version.value.is_some(),
                        "always" => true,
                        "never" => false,
                        other => panic!("unknown condition: {other}"),
                    };
                    let decision = if holds {
                        Decision::Write(running.value)
                    } else {
                        Decision::Keep
                    };
                    let more = running.operation.decided(decision);
                    let judged = if holds { "write" } else { "keep" };
                    let shown = self.version_text(&version);
                    writeln!(out, "{name} decides on {shown}: {judged}").unwrap();
                    self.handle(name, more, out);
                }
                Output::Pause { attempt } => {
                    writeln!(out, "{name} pauses after {attempt} attempts").unwrap();
                }
                Output::Refresh { epoch } => writeln!(out, "{name} needs epoch {epoch}").unwrap(),
                Output::Done(outcome) => {
                    writeln!(out, "{name} ends: {}", self.outcome_text(&outcome)).unwrap();
                }
            }
        }
    }

    fn spread(&mut self, case: &mut TestCase, out: &mut String) {
        let (from, to) = (number(case, "from") as usize, number(case, "to") as usize);
        let settled = flag(case, "settled");
        let version = self.replicas.cells[from].version();
        let bounds = Bounds::without_floors(self.replicas.now, 0);
        let (cell, recent) = (&self.replicas.cells[to], &mut self.replicas.recent[to]);
        let taken = replica::spread(Rules::CORRECT, &bounds, cell, recent, version, settled);
        let text = if taken.is_some() {
            "applied"
        } else {
            "refused"
        };
        writeln!(out, "{to}: {text}").unwrap();
        if let Some(cell) = taken {
            self.replicas.cells[to] = cell;
        }
    }

    fn show_rows(&self, out: &mut String) {
        for (number, cell) in self.replicas.cells.iter().enumerate() {
            let version = self.version_text(&cell.version());
            write!(out, "{number}: {version}").unwrap();
            if cell.promised > cell.stamp {
                write!(out, ", promised {}", stamp_text(cell.promised)).unwrap();
            }
            out.push('\n');
        }
    }

    fn request_text(&self, request: &Request<u32>) -> String {
        match request {
            Request::Read { with_value: true } => "read".into(),
            Request::Read { with_value: false } => "read the stamp".into(),
            Request::Prepare { ballot, asking, .. } => {
                let asking = asking.map(|id| format!(", asking for {}", self.name(id)));
                format!(
                    "prepare {}{}",
                    stamp_text(*ballot),
                    asking.unwrap_or_default()
                )
            }
            Request::Write { version, .. } => format!("write {}", self.version_text(version)),
        }
    }

    fn answer_text(&self, answer: &Answer<u32>) -> String {
        match answer {
            Answer::Found { version, live, .. } if *live && version.value.is_none() => {
                format!("found {}", stamp_text(version.stamp))
            }
            Answer::Found { version, .. } => format!("found {}", self.version_text(version)),
            Answer::Promised {
                version,
                accepted,
                known_from,
                ..
            } => {
                let held = self.version_text(version);
                format!(
                    "promised, holds {held}{}",
                    memory_text(accepted, *known_from)
                )
            }
            Answer::Lacking { .. } => "a version is lacking".into(),
            Answer::LacksPointing => "the pointing row is lacking".into(),
            Answer::Accepted => "accepted".into(),
            Answer::Stale {
                highest,
                remembered,
            } => {
                let mut text = format!("stale, above {}", stamp_text(*highest));
                if let Some(remembered) = remembered {
                    text.push_str(&memory_text(&remembered.accepted, remembered.known_from));
                }
                text
            }
            Answer::Ahead => "too far ahead".into(),
            Answer::Guarded => "the guard is closed".into(),
            Answer::Held => "a version does not permit it".into(),
            Answer::Superseded { epoch } => format!("superseded by epoch {epoch}"),
        }
    }

    fn outcome_text(&self, outcome: &Outcome<u32>) -> String {
        match outcome {
            Outcome::Value(version) => format!("value {}", self.version_text(version)),
            Outcome::Written { stamp } => format!("written under {}", stamp_text(*stamp)),
            Outcome::Kept(version) => format!("kept {}", self.version_text(version)),
            other => format!("{other:?}").to_lowercase(),
        }
    }

    fn version_text(&self, version: &Version<u32>) -> String {
        if version.stamp == Stamp::ZERO {
            return "nothing".into();
        }
        let value = version
            .value
            .map_or("a tombstone".into(), |v| v.to_string());
        let (stamp, write) = (stamp_text(version.stamp), self.name(version.write));
        format!("{value} ({write} at {stamp})")
    }

    fn name(&self, write: Id) -> &str {
        self.names.get(&write).map_or("?", String::as_str)
    }
}

/// Shows a stamp as its millisecond and its node.
fn stamp_text(stamp: Stamp) -> String {
    format!("{}.{}", stamp.millis(), stamp.writer.0)
}

/// Shows under which stamps a replica accepted the write in question.
fn memory_text(accepted: &[Stamp], known_from: Stamp) -> String {
    let accepted = accepted
        .iter()
        .map(|stamp| format!(", accepted {}", stamp_text(*stamp)));
    let mut text: String = accepted.collect();
    if known_from > Stamp::ZERO {
        write!(text, ", remembers from {}", stamp_text(known_from)).unwrap();
    }
    text
}

fn number(case: &mut TestCase, name: &str) -> u64 {
    case.take_arg(name).unwrap()
}

fn flag(case: &mut TestCase, name: &str) -> bool {
    case.take_flag(name).unwrap()
}

fn members(case: &mut TestCase, name: &str) -> ReplicaSet {
    let list: Vec<usize> = case.take_args(name).unwrap();
    list.into_iter().collect()
}
