//! What a node tells another, and what it takes from what it is told.
//!
//! One exchange is a question (lines of all nodes, or of some by chance where there are many), an answer
//! (lines where the answerer knows something else, and facts that the asker lacks), and, if
//! the answer shows that facts are lacked there, a second message with those.

use std::collections::BTreeSet;

use archipel_base::NodeId;
use archipel_base::random::Random;

use super::evidence::Evidence;
use super::facts::Facts;
use super::message::{Edition, Gossip, Line, MAX_FACTS_BYTES, MAX_LINES, Short, Told};
use super::plan::shuffle;
use super::state::{Known, Membership};

/// How many lines of a message are looked at.
const MAX_LINES_HEARD: usize = 2 * MAX_LINES;
/// How many nodes with facts.
const MAX_TOLD_HEARD: usize = 2_000;

impl Membership {
    /// What to say first: lines.
    pub(super) fn question(&self, now_ms: u64, random: &dyn Random) -> Gossip {
        Gossip {
            cluster: self.cluster,
            total: self.others.len() as u64 + 1,
            lines: self.some_lines(now_ms as i64, random),
            facts: Vec::new(),
            wall_ms: 0,
        }
    }

    /// What to say first to somebody who may not know this node.
    pub(super) fn greeting(&self, now_ms: u64, random: &dyn Random) -> Gossip {
        Gossip {
            facts: vec![self.own_told(now_ms as i64)],
            ..self.question(now_ms, random)
        }
    }

    /// What to say to what was heard.
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
            cluster: self.cluster,
            total: 0,
            lines,
            facts: self.facts_for(heard, now),
            wall_ms: 0,
        }
    }

    /// What the answer showed that one of the two lacks.
    pub(super) fn rest(&mut self, answer: &Gossip, now_ms: u64) -> Option<Gossip> {
        let facts = self.facts_for(answer, now_ms as i64);
        let heard = answer.lines.iter().take(MAX_LINES_HEARD);
        let unknown = heard.filter(|line| line.generation > 0 && self.lacks(line));
        let lines: Vec<Line> = unknown.map(|line| Line::unknown(line.node)).collect();
        (!facts.is_empty() || !lines.is_empty()).then_some(Gossip {
            cluster: self.cluster,
            total: 0,
            lines,
            facts,
            wall_ms: 0,
        })
    }

    /// Takes in what another tells.
    ///
    /// # Errors
    /// If it is of another cluster.
    pub(super) fn hear(&mut self, from: NodeId, heard: &Gossip, now_ms: u64) -> Result<(), String> {
        let now = now_ms as i64;
        self.check_cluster(heard)?;
        for told in heard.facts.iter().take(MAX_TOLD_HEARD) {
            self.hear_facts(told, now);
        }
        for line in heard.lines.iter().take(MAX_LINES_HEARD) {
            self.hear_line(line, now);
        }
        self.report(&from, true, now_ms);
        Ok(())
    }

    fn check_cluster(&mut self, heard: &Gossip) -> Result<(), String> {
        match (self.cluster, heard.cluster) {
            (Some(ours), Some(theirs)) if ours != theirs => Err(format!(
                "it is in another cluster ({theirs}) than this node ({ours}), and two clusters do not \
                 become one; fix: let only nodes of one cluster, or new ones, have this secret and these addresses"
            )),
            // Whoever is in none joins the first that it hears of.
            (None, theirs) => {
                self.cluster = theirs;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn hear_facts(&mut self, told: &Told, now: i64) {
        let edition = told.line.edition();
        if told.node == self.me {
            return self.hear_of_myself(&told.line, now);
        }
        if !told.facts.is_bounded() || edition.generation == 0 {
            return;
        }
        let age_ms = told.line.age.saturating_mul(100);
        if !self.others.contains_key(&told.node) && !self.takes(&told.node, age_ms) {
            return;
        }
        let alive_ms = now.saturating_sub_unsigned(age_ms);
        let known = self.others.entry(told.node).or_insert_with(|| Known {
            edition: Edition::default(),
            facts: Facts::default(),
            leaving: false,
            heartbeat: 0,
            evidence: Evidence::new(alive_ms, now),
            sent: 0,
            next_ms: now,
        });
        if known.edition < edition {
            if known.edition.generation < edition.generation {
                known.heartbeat = 0;
                known.evidence.restarted();
            }
            known.edition = edition;
            known.facts = told.facts.clone();
            known.leaving = told.leaving;
            known.sent = 0;
            self.changes += 1;
        }
        self.hear_sign(&told.node, &told.line, now);
    }

    fn hear_line(&mut self, line: &Line, now: i64) {
        if line.node == Short::of(&self.me) {
            return self.hear_of_myself(line, now);
        }
        if let Some(node) = self.find(line.node) {
            self.hear_sign(&node, line, now);
        }
    }

    /// Only news that are newer count: else the same ones would look fresher with each way back, as what
    /// they take on the way is not seen.
    fn hear_sign(&mut self, node: &NodeId, line: &Line, now: i64) {
        if let Some(known) = self.others.get_mut(node)
            && known.edition.generation == line.generation
            && known.heartbeat < line.heartbeat
        {
            known.heartbeat = line.heartbeat;
            let age_ms = line.age.saturating_mul(100);
            known.evidence.lived(now.saturating_sub_unsigned(age_ms));
        }
        self.judge(node, now);
    }

    /// Others remember a run of this node that this one does not know of, as after its disk came back from a
    /// copy: they must take this run for a newer one.
    fn hear_of_myself(&mut self, line: &Line, now: i64) {
        let own = self.own_line(now);
        if (line.generation, line.heartbeat) > (own.generation, own.heartbeat) {
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
            // Rather older than younger.
            age: known.evidence.age_ms(now).div_ceil(100),
        }
    }

    /// This node's, and those of all others, or of some by chance.
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

    /// Where this node knows more or less than the lines say.
    fn differing_lines(&self, heard: &Gossip, now: i64) -> Vec<Line> {
        let lines = heard.lines.iter().take(MAX_LINES_HEARD);
        let ours = lines.filter_map(|theirs| {
            let own = theirs.node == Short::of(&self.me);
            let found = self.find(theirs.node);
            let known = found.and_then(|node| Some((node, self.others.get(&node)?)));
            let ours = match known {
                _ if own => self.own_line(now),
                Some((node, known)) => self.line(&node, known, now),
                // A question of theirs, or one of ours.
                None if theirs.generation == 0 => return None,
                None => Line::unknown(theirs.node),
            };
            let same = ours.edition() == theirs.edition() && ours.heartbeat <= theirs.heartbeat;
            (!same).then_some(ours)
        });
        ours.collect()
    }

    /// The facts that somebody lacks who told this: those first that were not told for the longest.
    fn facts_for(&mut self, heard: &Gossip, now: i64) -> Vec<Told> {
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
        let mut room = MAX_FACTS_BYTES;
        self.sendings += u64::from(!lacking.is_empty());
        for (_, node) in lacking {
            let Some(next) = self.told(&node, now) else {
                continue;
            };
            let Some(left) = room.checked_sub(next.facts.size_bytes()) else {
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
            facts: known.facts.clone(),
            leaving: known.leaving,
        })
    }
}
