//! The verdict of a simulation.

/// The end of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict<C> {
    /// The violation, or `None`.
    pub violation: Option<String>,
    /// A hash of everything that happened, in order.
    pub hash: u64,
    /// Counts of what happened.
    pub counts: C,
}

impl<C: Default> Verdict<C> {
    /// Returns the verdict of a run that could not begin.
    pub fn failed(why: String) -> Verdict<C> {
        Verdict {
            violation: Some(why),
            hash: 0,
            counts: C::default(),
        }
    }
}
