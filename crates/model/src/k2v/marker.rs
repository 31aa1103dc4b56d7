//! Seen markers: what a client has seen of a range. Clients do not look inside.
//!
//! A marker lists the items with the stamps of the versions that the client has seen. So it is
//! exact, and nothing about it is remembered on a server.

use std::collections::BTreeMap;

use archipel_base::codec::{self, Versioned};
use archipel_base::{Id, Stamp, hash};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::token::Token;
use crate::error::Error;

/// The items of a partition key that a client has seen, by sort key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Marker(pub BTreeMap<String, Token>);

#[derive(Serialize, Deserialize)]
struct Encoded {
    /// Ties the marker to its partition key. It finds mistakes.
    #[serde(rename = "c")]
    check: Id,
    /// The sort key, the stamp, and the write if nothing but deletions was left.
    #[serde(rename = "i")]
    items: Vec<(String, Stamp, Option<Id>)>,
}

impl Versioned for Encoded {
    const VERSION: u8 = 1;
}

impl Marker {
    /// Encodes the marker for a partition key of a bucket.
    pub fn encode(&self, bucket: &Id, pk: &str) -> Bytes {
        let items = self.0.iter();
        let items = items.map(|(sk, token)| (sk.clone(), token.stamp, token.tombstone));
        let items: Vec<_> = items.collect();
        codec::encode(&Encoded {
            check: check(bucket, pk, &items),
            items,
        })
        .into()
    }

    /// Decodes a marker that a client presents for a partition key.
    ///
    /// # Errors
    /// [`Error::InvalidCausalityToken`] if the marker was not given out for this partition key.
    pub fn decode(bytes: &[u8], bucket: &Id, pk: &str) -> Result<Marker, Error> {
        let encoded: Encoded = codec::decode(bytes).map_err(|_| Error::InvalidCausalityToken)?;
        if encoded.check != check(bucket, pk, &encoded.items) {
            return Err(Error::InvalidCausalityToken);
        }
        let item = |(sk, stamp, tombstone)| (sk, Token { stamp, tombstone });
        Ok(Marker(encoded.items.into_iter().map(item).collect()))
    }
}

fn check(bucket: &Id, pk: &str, items: &[(String, Stamp, Option<Id>)]) -> Id {
    let mut all = Vec::with_capacity(64 * items.len());
    for (sk, stamp, tombstone) in items {
        all.extend_from_slice(sk.as_bytes());
        // No sort key holds NUL, so that the text has one reading.
        all.push(0);
        all.extend_from_slice(&stamp.to_bytes());
        all.push(u8::from(tombstone.is_some()));
        all.extend_from_slice(tombstone.unwrap_or_default().as_bytes());
    }
    hash::derived_id(
        "archipel k2v seen marker",
        &[bucket.as_bytes(), pk.as_bytes(), &all],
    )
}

#[cfg(test)]
mod tests {
    use archipel_base::Writer;

    use super::*;

    #[test]
    fn only_the_own_marker_is_accepted() {
        let bucket = Id([1; 16]);
        let seen = |n: u64| Token {
            stamp: Stamp::new(n, 0, Writer(1)),
            tombstone: n.is_multiple_of(2).then_some(Id([n as u8; 16])),
        };
        let items = (1..20).map(|n| (format!("sk{n}"), seen(n)));
        let marker = Marker(items.collect());
        let bytes = marker.encode(&bucket, "p");
        assert_eq!(Marker::decode(&bytes, &bucket, "p"), Ok(marker));
        assert!(Marker::decode(&bytes, &bucket, "q").is_err());
        assert!(Marker::decode(&bytes, &Id([2; 16]), "p").is_err());
        for at in 0..bytes.len() {
            let mut wrong = bytes.to_vec();
            wrong[at] ^= 1;
            assert!(Marker::decode(&wrong, &bucket, "p").is_err(), "{at}");
        }
    }
}
