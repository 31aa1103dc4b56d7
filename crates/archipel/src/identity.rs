//! The identity of this node: an ed25519 key pair, made at the first start and kept.
//!
//! The node's id is its public key. Its store has a separate random name, made when the store was
//! empty: a node that lost its disk is the same node with another store.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use archipel_base::NodeId;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};

/// The file of the key pair, a PKCS#8 document (DER).
const KEY_FILE: &str = "node.key";
/// Its name until the node has a store. A key without a store tells that the store is lost, and the
/// first start may be cut short.
const UNUSED_KEY_FILE: &str = "node.key.unused";

/// A node's identity.
pub struct Identity {
    /// The public key.
    pub public_key: [u8; 32],
    /// True if no store was made under the key yet.
    pub is_new: bool,
}

impl Identity {
    /// Loads the identity in `folder`, which the caller has locked, or creates a new one.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn load(folder: &Path) -> Result<Identity, String> {
        let path = folder.join(KEY_FILE);
        if let Some(document) = read(&path)? {
            let public_key = public_key(&path, &document)?;
            return Ok(Identity {
                public_key,
                is_new: false,
            });
        }
        let path = folder.join(UNUSED_KEY_FILE);
        let document = match read(&path)? {
            Some(document) => document,
            None => make(&path)?,
        };
        Ok(Identity {
            public_key: public_key(&path, &document)?,
            is_new: true,
        })
    }

    /// Keeps a new key, durably, because the node has a store now.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn keep(&self, folder: &Path) -> Result<(), String> {
        let path = folder.join(KEY_FILE);
        if !self.is_new || path.exists() {
            return Ok(());
        }
        rename(&folder.join(UNUSED_KEY_FILE), &path).map_err(|error| cannot(&path, &error))
    }

    /// Returns the id of the node.
    pub fn node(&self) -> NodeId {
        NodeId(self.public_key)
    }

    /// Returns the id as text: 64 hexadecimal digits.
    pub fn node_id(&self) -> String {
        hex::encode(self.public_key)
    }
}

/// Returns the key pair in `folder` as a PKCS#8 document.
///
/// # Errors
/// A text for the operator.
pub fn document(folder: &Path) -> Result<Vec<u8>, String> {
    let path = folder.join(KEY_FILE);
    fs::read(&path).map_err(|error| cannot(&path, &error))
}

fn cannot(path: &Path, error: &io::Error) -> String {
    format!("the node's key {}: {error}", path.display())
}

/// Returns a key pair; `None` if there is none.
fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    match fs::read(path) {
        Ok(document) => {
            refuse_open_key(path)?;
            Ok(Some(document))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(cannot(path, &error)),
    }
}

/// Makes a key pair, durably. Returns it.
fn make(path: &Path) -> Result<Vec<u8>, String> {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
        .map_err(|_| "the operating system provides no randomness".to_owned())?;
    replace(path, document.as_ref()).map_err(|error| cannot(path, &error))?;
    Ok(document.as_ref().to_vec())
}

fn public_key(path: &Path, document: &[u8]) -> Result<[u8; 32], String> {
    let pair = Ed25519KeyPair::from_pkcs8(document).map_err(|why| {
        format!(
            "the node's key {} is damaged ({why}); fix: restore it from a backup",
            path.display()
        )
    })?;
    let mut key = [0; 32];
    key.copy_from_slice(pair.public_key().as_ref());
    Ok(key)
}

fn refuse_open_key(path: &Path) -> Result<(), String> {
    let metadata = fs::metadata(path).map_err(|e| format!("{}: {e}", path.display()))?;
    match metadata.permissions().mode() & 0o077 {
        0 => Ok(()),
        _ => Err(format!(
            "other users can read or change the node's key; fix: chmod 600 {}",
            path.display()
        )),
    }
}

/// Replaces a file durably and atomically. Only its owner can read it.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let _ = fs::remove_file(&temporary);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    rename(&temporary, path)
}

/// Renames a file durably, within its folder.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    let folder = to.parent().ok_or(io::ErrorKind::InvalidInput)?;
    File::open(folder)?.sync_all()
}
