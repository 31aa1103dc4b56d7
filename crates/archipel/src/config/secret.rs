//! Secrets in files.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The minimum length of a token, in characters.
pub const MIN_TOKEN_CHARS: usize = 16;

/// The minimum length of the cluster's secret, in characters. A node that joins proves the secret
/// to whatever answers at the address, and such a proof lets its receiver try secrets without
/// limit.
pub const MIN_CLUSTER_SECRET_CHARS: usize = 32;

/// The limit of a secret file, in bytes.
const MAX_FILE_BYTES: u64 = 4096;

/// A secret text. It stays out of logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Makes a secret of a text.
    pub fn of(text: String) -> Secret {
        Secret(text)
    }

    /// Returns the secret itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The reason why a secret file cannot be used, and the fix.
#[derive(Debug)]
pub struct Refused {
    /// The problem.
    pub why: String,
    /// The action that fixes it.
    pub fix: String,
}

/// Reads a token from a file: one line with at least this many printable characters.
///
/// A file that everybody can read is refused. One that its group can read is accepted, because
/// container platforms hand over secrets that way.
pub fn read_token(path: &Path, min_chars: usize) -> Result<Secret, Refused> {
    let text = read(path)?;
    let token = text.trim();
    if token.len() < min_chars || token.bytes().any(|b| !b.is_ascii_graphic()) {
        let len = token.chars().count();
        return Err(Refused {
            why: format!(
                "the content has {len} characters; it must be one line of at least {min_chars} printable characters"
            ),
            fix: match min_chars {
                // Another service chose it.
                1 => "write the token alone to the file".into(),
                _ => format!(
                    "make one with: head -c 32 /dev/urandom | base64 > {}",
                    path.display()
                ),
            },
        });
    }
    Ok(Secret(token.to_owned()))
}

/// Reads a file with a secret text of any form, of at most 4096 bytes.
pub fn read_text(path: &Path) -> Result<Secret, Refused> {
    read(path).map(Secret)
}

/// Reads a password from a file: its one line. The service that the password is for chose it, so it
/// may be short and hold any character.
///
/// A file that everybody can read is refused, as for a token.
pub fn read_password(path: &Path) -> Result<Secret, Refused> {
    let text = read(path)?;
    let password = text.strip_suffix('\n').unwrap_or(&text);
    let password = password.strip_suffix('\r').unwrap_or(password);
    if password.is_empty() || password.chars().any(char::is_control) {
        return Err(Refused {
            why: "the content is not one line with a password".into(),
            fix: "write the password alone to the file".into(),
        });
    }
    Ok(Secret(password.to_owned()))
}

/// Refuses a file that everybody can read.
pub fn check_mode(path: &Path) -> Result<(), Refused> {
    let mode = fs::metadata(path).map_err(unreadable)?.permissions().mode();
    if mode & 0o004 == 0 {
        return Ok(());
    }
    Err(Refused {
        why: format!(
            "every user of this machine can read it (mode {:o})",
            mode & 0o777
        ),
        fix: format!("chmod 600 {}", path.display()),
    })
}

fn unreadable(error: io::Error) -> Refused {
    Refused {
        why: format!("cannot read the file: {error}"),
        fix: "check that the file exists and that the server's user may read it".into(),
    }
}

fn read(path: &Path) -> Result<String, Refused> {
    check_mode(path)?;
    let file = fs::File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    file.take(MAX_FILE_BYTES)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    Ok(text)
}

#[cfg(test)]
mod tests;
