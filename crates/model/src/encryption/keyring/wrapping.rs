//! The keys that wrap the ring.

use std::num::NonZeroU32;

use archipel_base::Id;
use bytes::Bytes;
use ring::pbkdf2;

use super::{RingKey, RingSecrets};
use crate::Model;
use crate::cipher::DataKey;
use crate::cipher::wrap::{self, KEY_BYTES};

/// The rounds that make guesses of a short secret expensive.
const ROUNDS: NonZeroU32 = NonZeroU32::new(200_000).unwrap();

const SALT: &[u8] = b"archipel keyring 1";

/// The keys that derive from the secrets.
pub struct Wrapping {
    pub present: Vec<DataKey>,
    earlier: Vec<DataKey>,
}

/// A key of the ring that was opened.
pub struct Opened {
    pub key: DataKey,
    /// The number of the present keys by which it is wrapped.
    pub present: usize,
    /// Its other wrappings.
    pub others: Vec<Bytes>,
}

impl Wrapping {
    pub fn derive(secrets: &RingSecrets) -> Wrapping {
        let all = |secrets: &[Vec<u8>]| secrets.iter().map(|secret| derive(secret)).collect();
        Wrapping {
            present: all(&secrets.present),
            earlier: all(&secrets.earlier),
        }
    }

    /// Opens a key of the ring.
    pub fn open(&self, entry: &RingKey) -> Option<Opened> {
        let by = |outer: &DataKey, among: &[Bytes]| {
            let mut each = among.iter().enumerate();
            each.find_map(|(at, wrapped)| {
                let key = wrap::unwrap(outer.bytes(), entry.id.as_bytes(), wrapped)?;
                Some((at, key))
            })
        };
        let (mut others, mut opened) = (entry.wrapped.clone(), Vec::new());
        for outer in &self.present {
            if let Some((at, key)) = by(outer, &others) {
                others.remove(at);
                opened.push(key);
            }
        }
        let present = opened.len();
        let earlier = || self.earlier.iter().find_map(|outer| by(outer, &others));
        let key = opened.pop().or_else(|| earlier().map(|(_, key)| key))?;
        Some(Opened {
            key,
            present,
            others,
        })
    }

    /// Wraps a key by all present keys.
    pub fn wrap(&self, model: &Model, id: &Id, key: &DataKey) -> Option<Vec<Bytes>> {
        let wrapped = self.present.iter().map(|outer| {
            let mut salt = [0; 32];
            model.fill_random(&mut salt);
            wrap::wrap(outer.bytes(), id.as_bytes(), salt, key)
        });
        wrapped.collect()
    }
}

fn derive(secret: &[u8]) -> DataKey {
    let mut key = [0; KEY_BYTES];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ROUNDS, SALT, secret, &mut key);
    DataKey::new(key)
}
