//! The secrets that open the keyring.

use super::Secret;

/// The secrets that open the keyring.
#[derive(Clone, Debug)]
pub struct Encryption {
    /// The secret of the keyring; `None` if the cluster's secret opens it.
    pub key: Option<Secret>,
    /// The secret before.
    pub previous: Option<Secret>,
}
