//! Causality tokens: what a client has seen of an item. Clients do not look inside.

use archipel_base::{Id, Stamp, hash};
use bytes::{BufMut, Bytes, BytesMut};

use super::ItemName;
use crate::error::Error;

const VALUES: u8 = 1;
const TOMBSTONE: u8 = 2;
const CHECK_BYTES: usize = 8;
const MOST_BYTES: usize = 1 + 16 + 16 + CHECK_BYTES;

/// The values of an item that a client has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Token {
    /// The stamp of the version that the client has seen.
    pub stamp: Stamp,
    /// If nothing but deletions was left of the item: the write that deleted it.
    ///
    /// See [`siblings`](super::siblings) for why the stamp alone would not do.
    pub tombstone: Option<Id>,
}

impl Token {
    /// Encodes the token for an item of a bucket.
    pub fn encode(&self, bucket: &Id, name: &ItemName) -> Bytes {
        let mut bytes = BytesMut::with_capacity(MOST_BYTES);
        bytes.put_u8(self.tombstone.map_or(VALUES, |_| TOMBSTONE));
        bytes.put_slice(&self.stamp.to_bytes());
        if let Some(write) = &self.tombstone {
            bytes.put_slice(write.as_bytes());
        }
        let check = check(&bytes, bucket, name);
        bytes.put_slice(&check);
        bytes.freeze()
    }

    /// Decodes a token that a client presents for an item.
    ///
    /// # Errors
    /// [`Error::InvalidCausalityToken`] if the token was not given out for this item of this
    /// bucket.
    pub fn decode(bytes: &[u8], bucket: &Id, name: &ItemName) -> Result<Token, Error> {
        Token::read(bytes, bucket, name).ok_or(Error::InvalidCausalityToken)
    }

    fn read(bytes: &[u8], bucket: &Id, name: &ItemName) -> Option<Token> {
        let length = bytes.len().checked_sub(CHECK_BYTES)?;
        let (content, tail) = bytes.split_at(length);
        let (kind, rest) = content.split_first()?;
        let (stamp, write) = rest.split_first_chunk::<16>()?;
        let tombstone = match *kind {
            VALUES if write.is_empty() => None,
            TOMBSTONE => Some(Id(write.try_into().ok()?)),
            _ => return None,
        };
        let token = Token {
            stamp: Stamp::from_bytes(*stamp),
            tombstone,
        };
        (tail == check(content, bucket, name)).then_some(token)
    }
}

/// Returns what ties a token to its item. It finds mistakes. It keeps nobody from making tokens: a
/// client that may insert may also replace everything.
fn check(content: &[u8], bucket: &Id, name: &ItemName) -> [u8; CHECK_BYTES] {
    let fields: [&[u8]; 4] = [
        content,
        bucket.as_bytes(),
        name.pk.as_bytes(),
        name.sk.as_bytes(),
    ];
    let id = hash::derived_id("archipel k2v causality token", &fields);
    let mut check = [0; CHECK_BYTES];
    check.copy_from_slice(&id.0[..CHECK_BYTES]);
    check
}

#[cfg(test)]
mod tests {
    use archipel_base::Writer;

    use super::*;

    #[test]
    fn only_the_own_token_is_accepted() {
        let (bucket, other) = (Id([1; 16]), Id([2; 16]));
        let name = ItemName::new("p", "s").unwrap();
        let elsewhere = ItemName::new("ps", "").unwrap();
        for tombstone in [None, Some(Id([7; 16]))] {
            let token = Token {
                stamp: Stamp::new(77, 3, Writer(9)),
                tombstone,
            };
            let bytes = token.encode(&bucket, &name);
            assert_eq!(Token::decode(&bytes, &bucket, &name), Ok(token));
            assert!(Token::decode(&bytes, &other, &name).is_err());
            assert!(Token::decode(&bytes, &bucket, &elsewhere).is_err());
            for at in 0..bytes.len() {
                let mut wrong = bytes.to_vec();
                wrong[at] ^= 1;
                assert!(Token::decode(&wrong, &bucket, &name).is_err(), "{at}");
                assert!(Token::decode(&bytes[..at], &bucket, &name).is_err());
            }
        }
    }
}
