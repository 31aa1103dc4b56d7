//! The bucket and the access key that the first start of a cluster makes.

use super::secret::Secret;

/// The variable with the secret of the first access key. It is no setting of the file, because a
/// setting never holds a secret.
pub const SECRET_VARIABLE: &str = "ARCHIPEL_FIRST_START_SECRET_KEY";

/// The bucket and the access key that the first start of a cluster makes.
#[derive(Clone, Debug, Default)]
pub struct FirstStart {
    /// The bucket.
    pub bucket: Option<String>,
    /// The access key, which owns the bucket.
    pub key: Option<FirstKey>,
}

impl FirstStart {
    /// Returns true if it makes nothing.
    pub fn is_empty(&self) -> bool {
        self.bucket.is_none() && self.key.is_none()
    }
}

/// An access key to import.
#[derive(Clone, Debug)]
pub struct FirstKey {
    /// The id.
    pub id: String,
    /// The secret.
    pub secret: Secret,
}

/// Takes the secret of the first access key out of the environment's variables.
pub fn take_secret(
    variables: impl Iterator<Item = (String, String)>,
) -> (Option<String>, impl Iterator<Item = (String, String)>) {
    let (secret, others): (Vec<_>, Vec<_>) =
        variables.partition(|(name, _)| name == SECRET_VARIABLE);
    let mut secret = secret.into_iter().map(|(_, value)| value);
    let secret = secret.next_back().filter(|value| !value.is_empty());
    (secret, others.into_iter())
}
