//! A copy of each certificate in `data_dir`. A node that starts while it cannot reach the others,
//! or before it has read their rows, uses it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use archipel_base::hash::placement_hash;
use archipel_model::certificates::DomainName;

use crate::identity::replace;

/// Returns the folder of the copies.
pub fn folder(data_dir: &Path) -> PathBuf {
    data_dir.join("certificates")
}

/// Returns the name of the copy for a domain, without an ending. Another authority has another
/// copy: after a trial with one that no client trusts, its certificate must not come back.
pub fn name(of: DomainName<'_>) -> String {
    let authority = placement_hash(&[of.directory.as_bytes()]);
    format!("{}-{authority:016x}", of.domain)
}

/// Reads the chain and the key of a copy; `None` if there are none.
pub fn read(folder: &Path, name: &str) -> Option<(String, String)> {
    let read = |ending: &str| fs::read_to_string(folder.join(format!("{name}.{ending}"))).ok();
    Some((read("pem")?, read("key")?))
}

/// Writes the chain and the key of a copy.
///
/// # Errors
/// Those of the file system.
pub fn write(folder: &Path, name: &str, chain: &str, key: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    // A pair that does not fit together is not used, and is written again.
    replace(&folder.join(format!("{name}.key")), key.as_bytes())?;
    replace(&folder.join(format!("{name}.pem")), chain.as_bytes())
}
