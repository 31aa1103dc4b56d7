//! The kinds of runs: the register's state machines, and whole nodes.

use archipel_cluster::register::Rules;
use archipel_cluster::register::rules::Mutant;
use sim::{cluster, nodes};

/// The end of a run.
pub struct Ran<C> {
    /// The violation, or `None`.
    pub violation: Option<String>,
    /// A hash of everything that happened.
    pub hash: u64,
    /// Counts of what happened.
    pub counts: C,
}

/// A kind of runs, with its settings.
pub trait Kind: Copy + Sync {
    /// Counts of what happened.
    type Counts: Default + Send;

    /// The name of the kind.
    const NAME: &'static str;

    /// Returns the kind with this rule broken, or `None` if there is no such rule.
    fn new(mutant: Option<&str>) -> Option<Self>;

    /// Returns the kind with tracing on.
    fn tracing(self) -> Self;

    /// Runs a seed.
    fn simulate(self, seed: u64) -> Ran<Self::Counts>;

    /// Adds counts.
    fn add(sum: &mut Self::Counts, counts: &Self::Counts);

    /// Describes counts for people.
    fn describe(counts: &Self::Counts) -> String;
}

const ANSWER_BEFORE_SYNC: &str = "answer-before-sync";
const TRUST_OLD: &str = "trust-old";
const IGNORE_FENCES: &str = "ignore-fences";
const SWALLOW_FULL: &str = "swallow-full";
const NEWEST_PART: &str = "newest-part";
const TRUST_BUFFERED: &str = "trust-buffered";

/// Lists the rules that can be broken, for people.
pub fn mutants() -> String {
    format!(
        "{ANSWER_BEFORE_SYNC}, {TRUST_OLD}, {IGNORE_FENCES}, {SWALLOW_FULL}, {NEWEST_PART} and {TRUST_BUFFERED} (whole nodes), {:?} (whole nodes), and {:?} (for whole nodes only those of floors and of spreading)",
        Mutant::BY_SCHEDULE,
        Mutant::ALL
    )
}

fn named(name: &str) -> Option<Mutant> {
    let mut all = Mutant::ALL.into_iter().chain(Mutant::BY_SCHEDULE);
    all.find(|mutant| format!("{mutant:?}") == name)
}

/// The kind of the register's state machines alone.
#[derive(Clone, Copy)]
pub struct Register(cluster::Options);

impl Kind for Register {
    type Counts = cluster::judge::Counts;

    const NAME: &'static str = "register";

    fn new(mutant: Option<&str>) -> Option<Register> {
        let mut options = cluster::Options::default();
        match mutant {
            None => {}
            Some(ANSWER_BEFORE_SYNC) => options.answer_before_sync = true,
            Some(name) => {
                options.rules = Rules::broken(named(name)?);
            }
        }
        Some(Register(options))
    }

    fn tracing(self) -> Register {
        Register(cluster::Options {
            trace: true,
            ..self.0
        })
    }

    fn simulate(self, seed: u64) -> Ran<Self::Counts> {
        let verdict = cluster::simulate(seed, self.0);
        Ran {
            violation: verdict.violation,
            hash: verdict.hash,
            counts: verdict.counts,
        }
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

/// The kind of whole nodes.
#[derive(Clone, Copy)]
pub struct Nodes(nodes::Options);

impl Kind for Nodes {
    type Counts = nodes::Counts;

    const NAME: &'static str = "nodes";

    fn new(mutant: Option<&str>) -> Option<Nodes> {
        let mut options = nodes::Options::default();
        match mutant {
            None => {}
            Some(ANSWER_BEFORE_SYNC) => options.answer_before_sync = true,
            Some(TRUST_OLD) => options.trust_old_store = true,
            Some(IGNORE_FENCES) => options.ignore_fences = true,
            Some(SWALLOW_FULL) => options.swallow_full = true,
            Some(NEWEST_PART) => options.newest_part = true,
            Some(TRUST_BUFFERED) => options.trust_buffered = true,
            Some(name) => options.rules = Rules::broken(named(name)?),
        }
        Some(Nodes(options))
    }

    fn tracing(self) -> Nodes {
        Nodes(nodes::Options {
            trace: true,
            ..self.0
        })
    }

    fn simulate(self, seed: u64) -> Ran<Self::Counts> {
        let verdict = nodes::simulate(seed, self.0);
        Ran {
            violation: verdict.violation,
            hash: verdict.hash,
            counts: verdict.counts,
        }
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
