//! Messages between two nodes about membership: making them and handling them.
//!
//! One exchange is a request, an answer, and sometimes a second message. The request has lines of
//! all nodes, or of some random ones if there are many. The answer has lines where the answering
//! node knows something else, and node info that the asking node lacks. If the answer shows that
//! the answering node lacks some, the second message brings it.

use std::collections::BTreeSet;

use archipel_base::NodeId;
use archipel_base::random::Random;

use super::failure_detector::FailureDetector;
use super::message::{Edition, Gossip, Line, MAX_INFO_BYTES, MAX_LINES, Short, Told};
use super::node_info::NodeInfo;
use super::plan::shuffle;
use super::state::{Known, Membership};

/// The most lines of a message that are read.
const MAX_LINES_HEARD: usize = 2 * MAX_LINES;
/// The most node infos of a message that are read.
const MAX_TOLD_HEARD: usize = 2_000;

impl Membership {
    /// Returns the first message of an exchange: lines.
    pub(super) fn request(&self, now_ms: u64, random: &dyn Random) -> Gossip {
        Gossip {
            cluster: self.cluster(),
            total: self.others.len() as u64 + 1,
            lines: self.some_lines(now_ms as i64, random),
            outside: self.cluster.is_none(),
            ..Gossip::default()
        }
    }

    /// Returns the first message to a node that may not know this one.
    pub(super) fn greeting(&self, now_ms: u64, random: &dyn Random) -> Gossip {
        Gossip {
            infos: vec![self.own_told(now_ms as i64)],
            ..self.request(now_ms, random)
        }
    }

    /// Returns the answer to a message.
    pub(super) fn answer(&mut self, heard: &Gossip, now_ms: u64, random: &dyn Random) -> Gossip {
        let now = now_ms as i64;
        let mut lines = self.differing_lines(heard, now);
        if heard.total > 0 && !heard.is_complete() {
            let named: BTreeSet<Short> = heard.lines.iter().map(|line| line.node).collect();
            let unnamed = self.some_lines(now, random).into_iter();
            let unnamed = unnamed.filter(|line| !named.contains(&line.node));
            lines.extend(unnamed.take(self.max_lines.saturating_sub(lines.len())));
        }
        Gossip {
            cluster: self.cluster(),
            lines,
            infos: self.infos_for(heard, now),
            outside: self.cluster.is_none(),
            ..Gossip::default()
        }
    }

    /// Returns what the answering node lacks, according to its answer.
    pub(super) fn rest(&mut self, answer: &Gossip, now_ms: u64) -> Option<Gossip> {
        let infos = self.infos_for(answer, now_ms as i64);
        let heard = answer.lines.iter().take(MAX_LINES_HEARD);
        let unknown = heard.filter(|line| line.generation > 0 && self.lacks(line));
        let lines: Vec<Line> = unknown.map(|line| Line::unknown(line.node)).collect();
        (!infos.is_empty() || !lines.is_empty()).then_some(Gossip {
            cluster: self.cluster(),
            lines,
            infos,
            outside: self.cluster.is_none(),
            ..Gossip::default()
        })
    }

    /// Handles what another node tells.
    ///
    /// # Errors
    /// If the node is of another cluster.
    pub(super) fn hear(&mut self, from: NodeId, heard: &Gossip, now_ms: u64) -> Result<(), String> {
        let now = now_ms as i64;
        self.check_cluster(from, heard)?;
        let believed = self.believes(&from, heard);
        for told in heard.infos.iter().take(MAX_TOLD_HEARD) {
            if told.node == self.me {
                self.hear_of_myself(&told.line, from, heard, now);
            } else if believed || told.node == from {
                self.hear_info(told, now);
            }
        }
        for line in heard.lines.iter().take(MAX_LINES_HEARD) {
            if line.node == Short::of(&self.me) {
                self.hear_of_myself(line, from, heard, now);
            } else if believed || line.node == Short::of(&from) {
                self.hear_line(line, now);
            }
        }
        self.judge_heard();
        self.report(&from, true, now_ms);
        Ok(())
    }

    fn hear_info(&mut self, told: &Told, now: i64) {
        let edition = told.line.edition();
        if !told.info.is_bounded() || edition.generation == 0 {
            return;
        }
        let age_ms = told.line.age.saturating_mul(100);
        if !self.others.contains_key(&told.node) && !self.makes_room(&told.node, age_ms, now) {
            return;
        }
        let alive_ms = now.saturating_sub_unsigned(age_ms);
        let known = self.others.entry(told.node).or_insert_with(|| Known {
            edition: Edition::default(),
            info: NodeInfo::default(),
            leaving: false,
            heartbeat: 0,
            detector: FailureDetector::new(alive_ms, now),
            sent: 0,
            next_ms: now,
            behind: None,
        });
        if known.edition < edition {
            if known.edition.generation < edition.generation {
                known.heartbeat = 0;
                known.detector.restarted();
            }
            known.edition = edition;
            known.info = told.info.clone();
            known.leaving = told.leaving;
            known.sent = 0;
            self.changes += 1;
        }
        self.hear_sign(&told.node, &told.line, now);
    }

    fn hear_line(&mut self, line: &Line, now: i64) {
        if let Some(node) = self.find(line.node) {
            self.hear_sign(&node, line, now);
        }
    }

    /// Notes a sign of life if it is newer. Otherwise old news would look fresher each time they
    /// come around, because their time on the way is not counted.
    fn hear_sign(&mut self, node: &NodeId, line: &Line, now: i64) {
        if let Some(known) = self.others.get_mut(node)
            && known.edition.generation == line.generation
            && known.heartbeat < line.heartbeat
        {
            known.heartbeat = line.heartbeat;
            let age_ms = line.age.saturating_mul(100);
            known.detector.lived(now.saturating_sub_unsigned(age_ms));
        }
        self.judge(node, now);
    }

    /// Handles a line about this node itself. If others remember a run that this node does not know
    /// of, as after its disk was restored from a copy, they must take this run for a newer one.
    fn hear_of_myself(&mut self, line: &Line, from: NodeId, heard: &Gossip, now: i64) {
        let own = self.own_line(now);
        let is_later = (line.generation, line.heartbeat) > (own.generation, own.heartbeat);
        let is_told = self.believes(&from, heard);
        if is_later && is_told && self.may_be_mine(line.generation, &from, heard) {
            self.edition.generation = line.generation.saturating_add(1);
            self.changes += 1;
        }
    }

    fn lacks(&self, line: &Line) -> bool {
        line.node != Short::of(&self.me) && self.find(line.node).is_none()
    }

    fn find(&self, short: Short) -> Option<NodeId> {
        let mut named = self.others.range(short.range());
        named.next().map(|(node, _)| *node)
    }

    fn line(&self, node: &NodeId, known: &Known, now: i64) -> Line {
        Line {
            node: Short::of(node),
            generation: known.edition.generation,
            revision: known.edition.revision,
            heartbeat: known.heartbeat,
            // Rounded up: rather older than younger.
            age: known.detector.age_ms(now).div_ceil(100),
        }
    }

    /// Returns lines of this node and of all others, or of some random ones.
    fn some_lines(&self, now: i64, random: &dyn Random) -> Vec<Line> {
        let mut others: Vec<_> = self.others.iter().collect();
        if others.len() >= self.max_lines {
            shuffle(&mut others, random);
            others.truncate(self.max_lines - 1);
        }
        let others = others.into_iter();
        let lines = others.map(|(node, known)| self.line(node, known, now));
        [self.own_line(now)].into_iter().chain(lines).collect()
    }

    /// Returns lines where this node knows more or less than the message.
    fn differing_lines(&self, heard: &Gossip, now: i64) -> Vec<Line> {
        let lines = heard.lines.iter().take(MAX_LINES_HEARD);
        let ours = lines.filter_map(|theirs| {
            let own = theirs.node == Short::of(&self.me);
            let found = self.find(theirs.node);
            let known = found.and_then(|node| Some((node, self.others.get(&node)?)));
            let ours = match known {
                _ if own => self.own_line(now),
                Some((node, known)) => self.line(&node, known, now),
                // It is a request of theirs, or one of ours.
                None if theirs.generation == 0 => return None,
                None => Line::unknown(theirs.node),
            };
            let same = ours.edition() == theirs.edition() && ours.heartbeat <= theirs.heartbeat;
            (!same).then_some(ours)
        });
        ours.collect()
    }

    /// Returns the node info that the sender of this message lacks. Those that were not told for
    /// the longest time come first.
    fn infos_for(&mut self, heard: &Gossip, now: i64) -> Vec<Told> {
        let editions = heard.editions();
        let complete = heard.is_complete();
        let lacks = |node: &NodeId, ours: Edition| match editions.get(&Short::of(node)) {
            Some(theirs) => *theirs < ours,
            None => complete,
        };
        let others = self.others.iter();
        let lacking = others.filter(|(node, known)| lacks(node, known.edition));
        let mut lacking: Vec<_> = lacking.map(|(node, known)| (known.sent, *node)).collect();
        lacking.sort_unstable();
        let own = lacks(&self.me, self.edition).then(|| self.own_told(now));
        let mut told: Vec<Told> = own.into_iter().collect();
        let mut room = MAX_INFO_BYTES;
        self.sendings += u64::from(!lacking.is_empty());
        for (_, node) in lacking {
            let Some(next) = self.told(&node, now) else {
                continue;
            };
            let Some(left) = room.checked_sub(next.info.size_bytes()) else {
                break;
            };
            room = left;
            told.push(next);
            if let Some(known) = self.others.get_mut(&node) {
                known.sent = self.sendings;
            }
        }
        told
    }

    fn told(&self, node: &NodeId, now: i64) -> Option<Told> {
        let known = self.others.get(node)?;
        Some(Told {
            node: *node,
            line: self.line(node, known, now),
            info: known.info.clone(),
            leaving: known.leaving,
        })
    }
}
