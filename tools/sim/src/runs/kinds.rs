//! The kinds of runs.

use archipel_cluster::register::Rules;
use archipel_cluster::register::rules::Mutant;
use sim::{cluster, nodes};

/// How a run ended.
pub struct Ran<C> {
    /// What was wrong; `None` if nothing was.
    pub violation: Option<String>,
    /// A fingerprint of all that happened.
    pub hash: u64,
    /// What happened, in numbers.
    pub counts: C,
}

/// A kind of runs, with all its settings.
pub trait Kind: Copy + Sync {
    /// What happened, in numbers.
    type Counts: Default + Send;

    /// What to call it.
    const NAME: &'static str;

    /// The kind, with this rule broken; `None` if there is no such rule.
    fn new(mutant: Option<&str>) -> Option<Self>;

    /// The same, telling what happens.
    fn tracing(self) -> Self;

    /// Runs a seed.
    fn simulate(self, seed: u64) -> Ran<Self::Counts>;

    /// Adds up.
    fn add(sum: &mut Self::Counts, counts: &Self::Counts);

    /// For people.
    fn tell(counts: &Self::Counts) -> String;
}

const ANSWER_BEFORE_SYNC: &str = "answer-before-sync";
const TRUST_OLD: &str = "trust-old";

/// The rules that can be broken, for people.
pub fn mutants() -> String {
    format!(
        "{ANSWER_BEFORE_SYNC}, {TRUST_OLD} (whole nodes) and {:?} (of whole nodes only those of floors and of spreading)",
        Mutant::ALL
    )
}

fn named(name: &str) -> Option<Mutant> {
    let mut all = Mutant::ALL.into_iter();
    all.find(|mutant| format!("{mutant:?}") == name)
}

/// The register's state machines alone.
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

    fn tell(c: &Self::Counts) -> String {
        format!(
            "{} operations answered, {} unknown, {} refused; {} power cuts, {} disks lost, {} floors, {} epochs",
            c.told, c.unknown, c.refused, c.crashes, c.disks_lost, c.floors, c.epochs
        )
    }
}

/// Whole nodes.
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
            Some(TRUST_OLD) => options.trust_old = true,
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

    fn tell(c: &Self::Counts) -> String {
        format!(
            "{} operations answered, {} unknown, {} pages listed; {} power cuts, {} disks lost, {} put back, {} bits flipped, {} changes of the layout",
            c.told, c.unknown, c.pages, c.crashes, c.disks_lost, c.put_back, c.flips, c.layouts
        )
    }
}
