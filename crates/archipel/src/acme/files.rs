//! A copy of each certificate in `data_dir`. A node that starts while it cannot reach the others, or
//! before it has read their rows, uses it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::identity::replace;

/// Returns the folder of the copies.
pub fn folder(data_dir: &Path) -> PathBuf {
    data_dir.join("certificates")
}

/// Reads the chain and the key of a domain; `None` if there are none.
pub fn read(folder: &Path, domain: &str) -> Option<(String, String)> {
    let read = |ending: &str| fs::read_to_string(folder.join(format!("{domain}.{ending}"))).ok();
    Some((read("pem")?, read("key")?))
}

/// Writes the chain and the key of a domain.
///
/// # Errors
/// Those of the file system.
pub fn write(folder: &Path, domain: &str, chain: &str, key: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    // A pair that does not fit together is not used, and is written again.
    replace(&folder.join(format!("{domain}.key")), key.as_bytes())?;
    replace(&folder.join(format!("{domain}.pem")), chain.as_bytes())
}
