//! Which release this is, and from which commit, if the build knew.

use std::sync::LazyLock;

/// The release.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that it was built from.
pub const COMMIT: Option<&str> = option_env!("ARCHIPEL_COMMIT");

/// Both, for `--version`.
pub static LONG: LazyLock<String> = LazyLock::new(|| match COMMIT {
    Some(commit) => format!("{VERSION} ({commit})"),
    None => VERSION.to_owned(),
});
