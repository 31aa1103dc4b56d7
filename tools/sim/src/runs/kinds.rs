//! The kinds of runs: the register's state machines, and whole nodes.

use archipel_cluster::register::Rules;
use archipel_cluster::register::rules::Mutant;
use sim::verdict::Verdict;
use sim::{cluster, nodes};

/// The options of a kind of runs.
pub trait Kind: Copy + Default + Sync {
    /// Counts of what happened.
    type Counts: Default + Send;

    /// The name of the kind.
    const NAME: &'static str;

    /// Breaks a rule. Returns false if this kind has no such rule.
    fn break_rule(&mut self, mutant: &str) -> bool;

    /// Returns the same options with tracing on.
    fn tracing(self) -> Self;

    /// Runs a seed.
    fn simulate(self, seed: u64) -> Verdict<Self::Counts>;

    /// Adds counts.
    fn add(sum: &mut Self::Counts, counts: &Self::Counts);

    /// Describes counts for people.
    fn describe(counts: &Self::Counts) -> String;
}

const ANSWER_BEFORE_SYNC: &str = "answer-before-sync";
const TRUST_OLD: &str = "trust-old";
const IGNORE_FENCES: &str = "ignore-fences";
const SWALLOW_FULL: &str = "swallow-full";
const TRUST_BUFFERED: &str = "trust-buffered";

/// Lists the rules that can be broken, for people.
pub fn mutants() -> String {
    format!(
        "{ANSWER_BEFORE_SYNC}, {TRUST_OLD}, {IGNORE_FENCES}, {SWALLOW_FULL} and {TRUST_BUFFERED} (whole nodes), {:?} (whole nodes), and {:?} (for whole nodes only those of floors and of spreading)",
        Mutant::BY_SCHEDULE,
        Mutant::ALL
    )
}

/// Returns the rules without the one of this name; `None` if there is no such rule.
fn broken(name: &str) -> Option<Rules> {
    let mut all = Mutant::ALL.into_iter().chain(Mutant::BY_SCHEDULE);
    let mutant = all.find(|mutant| format!("{mutant:?}") == name);
    mutant.map(Rules::broken)
}

/// The register's state machines alone.
impl Kind for cluster::Options {
    type Counts = cluster::Counts;

    const NAME: &'static str = "register";

    fn break_rule(&mut self, mutant: &str) -> bool {
        if mutant == ANSWER_BEFORE_SYNC {
            self.answer_before_sync = true;
            return true;
        }
        let rules = broken(mutant);
        self.rules = rules.unwrap_or(self.rules);
        rules.is_some()
    }

    fn tracing(self) -> Self {
        cluster::Options {
            trace: true,
            ..self
        }
    }

    fn simulate(self, seed: u64) -> Verdict<Self::Counts> {
        cluster::simulate(seed, self)
    }

    fn add(sum: &mut Self::Counts, counts: &Self::Counts) {
        sum.add(counts);
    }

    fn describe(c: &Self::Counts) -> String {
        format!(
            "{} operations answered, {} unknown, {} refused; {} power cuts, {} disks lost, {} floors, {} epochs",
            c.answered, c.unknown, c.refused, c.crashes, c.disks_lost, c.floors, c.epochs
        )
    }
}

/// Whole nodes.
impl Kind for nodes::Options {
    type Counts = nodes::Counts;

    const NAME: &'static str = "nodes";

    fn break_rule(&mut self, mutant: &str) -> bool {
        let broken_here = match mutant {
            ANSWER_BEFORE_SYNC => &mut self.answer_before_sync,
            TRUST_OLD => &mut self.trust_old_store,
            IGNORE_FENCES => &mut self.ignore_fences,
            SWALLOW_FULL => &mut self.swallow_full,
            TRUST_BUFFERED => &mut self.trust_buffered,
            _ => {
                let rules = broken(mutant);
                self.rules = rules.unwrap_or(self.rules);
                return rules.is_some();
            }
        };
        *broken_here = true;
        true
    }

    fn tracing(self) -> Self {
        nodes::Options {
            trace: true,
            ..self
        }
    }

    fn simulate(self, seed: u64) -> Verdict<Self::Counts> {
        nodes::simulate(seed, self)
    }

    fn add(sum: &mut Self::Counts, counts: &Self::Counts) {
        sum.add(counts);
    }

    fn describe(c: &Self::Counts) -> String {
        format!(
            "{} operations answered, {} unknown, {} pages listed; {} power cuts, {} disks lost, {} rolled back, {} bits flipped, {} changes of the layout, {} polls told, {} disks slow, {} disks full",
            c.answered,
            c.unknown,
            c.pages,
            c.crashes,
            c.disks_lost,
            c.rolled_back,
            c.flips,
            c.layouts,
            c.told,
            c.slow_disks,
            c.full_disks
        )
    }
}
