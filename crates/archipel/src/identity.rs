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

/// A node's identity.
pub struct Identity {
    /// The public key.
    pub public_key: [u8; 32],
    /// True if the key was made just now.
    pub is_new: bool,
}

impl Identity {
    /// Loads the identity in `folder`, which the caller has locked, or creates a new one.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn load(folder: &Path) -> Result<Identity, String> {
        let (public_key, is_new) = public_key(&folder.join(KEY_FILE))?;
        Ok(Identity { public_key, is_new })
    }

    /// Removes a key that was made just now, because the first start failed before the node had a
    /// store. A key without a store tells that the store is lost. Returns the error with which the
    /// start failed.
    pub fn withdraw(&self, folder: &Path, failed: String) -> String {
        match self.is_new.then(|| fs::remove_file(folder.join(KEY_FILE))) {
            Some(Err(error)) => {
                format!("{failed}; and the new {KEY_FILE} cannot be removed: {error}")
            }
            _ => failed,
        }
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
    fs::read(&path).map_err(|error| format!("the node's key {}: {error}", path.display()))
}

/// Returns the public key, and whether the key pair was made just now.
fn public_key(path: &Path) -> Result<([u8; 32], bool), String> {
    let cannot = |error: io::Error| format!("the node's key {}: {error}", path.display());
    let (document, is_new) = match fs::read(path) {
        Ok(document) => {
            refuse_open_key(path)?;
            (document, false)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
                .map_err(|_| "the operating system provides no randomness".to_owned())?;
            replace(path, document.as_ref()).map_err(cannot)?;
            (document.as_ref().to_vec(), true)
        }
        Err(error) => return Err(cannot(error)),
    };
    let pair = Ed25519KeyPair::from_pkcs8(&document).map_err(|why| {
        format!(
            "the node's key {} is damaged ({why}); fix: restore it from a backup",
            path.display()
        )
    })?;
    let mut key = [0; 32];
    key.copy_from_slice(pair.public_key().as_ref());
    Ok((key, is_new))
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
    fs::rename(&temporary, path)?;
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    File::open(folder)?.sync_all()
}
