//! Secrets that stand in files.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The shortest token that is accepted, in characters.
const MIN_TOKEN_CHARS: usize = 16;

/// The largest secret file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 4096;

/// A secret text; it does not show itself in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The secret itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Why a secret file cannot be used, and what to do about it.
#[derive(Debug)]
pub struct Refused {
    /// What is wrong.
    pub why: String,
    /// What to do.
    pub fix: String,
}

/// Reads a token from a file: one line, of at least 16 printable characters.
///
/// A file that everybody may read is refused. One that its group may read is accepted: that is how
/// container platforms hand secrets over.
pub fn read_token(path: &Path) -> Result<Secret, Refused> {
    let text = read(path)?;
    let token = text.trim();
    if token.len() < MIN_TOKEN_CHARS || token.bytes().any(|b| !b.is_ascii_graphic()) {
        return Err(Refused {
            why: format!("a token is one line of at least {MIN_TOKEN_CHARS} printable characters"),
            fix: format!(
                "make one with: head -c 32 /dev/urandom | base64 > {}",
                path.display()
            ),
        });
    }
    Ok(Secret(token.to_owned()))
}

fn read(path: &Path) -> Result<String, Refused> {
    let unreadable = |error: io::Error| Refused {
        why: format!("cannot be read: {error}"),
        fix: "check that the file exists and that the server's user may read it".into(),
    };
    let file = fs::File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode();
    if mode & 0o004 != 0 {
        return Err(Refused {
            why: format!(
                "everybody on this machine may read it (mode {:o})",
                mode & 0o777
            ),
            fix: format!("chmod 600 {}", path.display()),
        });
    }
    let mut text = String::new();
    file.take(MAX_FILE_BYTES)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    Ok(text)
}
