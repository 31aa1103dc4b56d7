//! The release of this program, and its commit if the build knew it.

use std::sync::LazyLock;

/// The release.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit of the build.
pub const COMMIT: Option<&str> = option_env!("ARCHIPEL_COMMIT");

/// The release and the commit, for `--version`.
pub static LONG: LazyLock<String> = LazyLock::new(|| match COMMIT {
    Some(commit) => format!("{VERSION} ({commit})"),
    None => VERSION.to_owned(),
});
