//! Switches for checkers. They widen the windows in which defects hide, or break a rule on purpose.
//!
//! No setting of the product reaches them. They are apart from the options so that nobody mistakes
//! one for a setting.

use std::time::Duration;

use crate::register::Rules;

/// The number of rows purged in one transaction.
const PURGE_ROWS: usize = 500;

/// Switches that only checkers use. [`Default`] is the product's behaviour.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// The longest time that a row from a peer waits before it is applied, as on a slow disk.
    pub apply_delay: Duration,
    /// Trusts that the store was not rolled back, without asking the other nodes.
    pub trust_old_store: bool,
    /// The register's rules. A checker breaks one and must notice.
    pub rules: Rules,
    /// The number of rows that one transaction purges from a partition that other stores hold now.
    pub purge_rows: usize,
    /// The pause between two such transactions.
    pub purge_pause: Duration,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults {
            apply_delay: Duration::ZERO,
            trust_old_store: false,
            rules: Rules::CORRECT,
            purge_rows: PURGE_ROWS,
            purge_pause: Duration::ZERO,
        }
    }
}
