//! The order of removals: the noncurrent versions of a key go one after another, the oldest first.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::Seen;
use super::remove::Tried;
use crate::Model;
use crate::bucket::Bucket;
use crate::error::Error;

/// The number of keys of which something is removed at once while no client is served.
const CHAINS_AT_ONCE: usize = 8;
/// The rest after a removal while clients are served, as a multiple of the time that the removal
/// took. Only one removal runs at a time then, because a client's request waits for all that run
/// when it comes.
const REST: u32 = 4;

/// The longest rest.
const LONGEST_REST: Duration = Duration::from_secs(5);

impl Model {
    /// Removes the part of `seen` that has expired. Returns false if something could not be
    /// removed.
    pub(super) async fn expire_among(
        &self,
        bucket: &Bucket,
        mut seen: Vec<Seen>,
    ) -> Result<bool, Error> {
        let Some(cached) = self.same_bucket(bucket)? else {
            return Ok(true);
        };
        seen.retain(|one| self.has_expired(&cached, one));
        if seen.is_empty() {
            return Ok(true);
        }
        // Another node may have changed the rules a moment ago.
        let current = self.refresh_bucket(&bucket.name).await?;
        let Some(current) = current.filter(|current| current.id == bucket.id) else {
            return Ok(true);
        };
        seen.retain(|one| self.has_expired(&current, one));
        let (mut chains, mut whole) = (chains(seen).into_iter().peekable(), true);
        while chains.peek().is_some() {
            let count = match self.cluster().serves_clients() {
                true => 1,
                false => CHAINS_AT_ONCE,
            };
            let some = chains.by_ref().take(count);
            let some = some.map(|chain| self.remove_chain(&current, chain));
            whole &= join_all(some).await.into_iter().all(|is_whole| is_whole);
        }
        Ok(whole)
    }

    /// Removes a chain, the oldest version first: once a version is removed, nothing tells when the
    /// one below it became noncurrent. Returns false if a removal must be tried again. The chain
    /// ends there.
    async fn remove_chain(&self, bucket: &Bucket, chain: Vec<Seen>) -> bool {
        for one in chain.into_iter().rev() {
            if self.is_expiry_stopped() {
                return false;
            }
            let timed = async {
                let began = Instant::now();
                (self.remove(bucket, one).await, began.elapsed())
            };
            let (tried, took) = self.cluster().in_background(timed).await;
            if tried == Tried::Failed {
                return false;
            }
            if self.cluster().serves_clients() {
                tokio::time::sleep((took * REST).min(LONGEST_REST)).await;
            }
        }
        true
    }
}

/// Divides `seen` into chains: the noncurrent versions of each key, newest first, are one chain,
/// and anything else is a chain by itself.
fn chains(seen: Vec<Seen>) -> Vec<Vec<Seen>> {
    fn key_of(one: &Seen) -> Option<&str> {
        match one {
            Seen::Noncurrent(one) => Some(&one.key),
            _ => None,
        }
    }
    let mut chains: Vec<Vec<Seen>> = Vec::new();
    for one in seen {
        let key = key_of(&one);
        match chains.last_mut() {
            Some(chain) if key.is_some() && chain.last().and_then(key_of) == key => chain.push(one),
            _ => chains.push(vec![one]),
        }
    }
    chains
}
