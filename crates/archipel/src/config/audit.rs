//! The targets of the audit log.

use std::path::PathBuf;

use http::Uri;

/// The targets of the audit log.
#[derive(Clone, Debug)]
pub struct Audit {
    /// A file, to which lines are appended.
    pub file: Option<PathBuf>,
    /// Standard output.
    pub stdout: bool,
    /// An address to which lines are posted.
    pub webhook: Option<Uri>,
}
