//! The choice of the replica that brings the next block.

use std::cmp::Reverse;

use archipel_base::codec;
use archipel_net::Class;
use tokio::time::Instant;

use super::source::AVOIDED;
use super::{BlockStream, Source};
use crate::error::Error;
use crate::node::group::Group;
use crate::node::peers::Peers;
use crate::node::wire::{FetchCall, method};

impl BlockStream {
    /// Judges the replica that has brought a block. If it is slow, no client waits, and another one
    /// may be faster, that one is asked for the next block. Blocks that no client waits for are sent
    /// behind all else, so a link that clients fill may bring a few kilobytes a second. If the others
    /// turn out to lack the block, to be out of reach or as slow, they are not asked again for a while.
    pub(super) fn judge(&mut self) {
        let Some(source) = &mut self.remote else {
            return;
        };
        // A replica that has become fast is no last resort for the next block.
        source.is_last_resort &= source.is_slow();
        if self.class.is_none() {
            return;
        }
        if !source.is_slow() {
            let slow = &self.inner.slow_sources;
            slow.forget(&source.node, self.class);
            return;
        }
        if source.stays(Instant::now()) {
            return;
        }
        let has_better = self.group.as_ref().is_some_and(|group| {
            let none = (false, false);
            let mut others = group.others();
            others.any(|index| self.drawbacks(group, index) == none)
        });
        if has_better {
            self.reserve = self.remote.take();
        }
    }

    /// Returns the drawbacks of a replica of another node: true if the node is suspected, and true if
    /// it is known to be slow.
    fn drawbacks(&self, group: &Group, index: usize) -> (bool, bool) {
        let Some(member) = group.members.get(index) else {
            return (true, true);
        };
        let (node, slow) = (&member.node.node, &self.inner.slow_sources);
        let is_away = group.is_away(self.inner.peers.as_ref(), node);
        (is_away, slow.is_avoided(node, self.class, Instant::now()))
    }

    /// Opens a stream from the nearest replica that was not tried for the next block. The stream
    /// brings all blocks that are left, or only the next one. Returns `false` if there is no such
    /// replica. If no client waits, slow replicas come last of those that are not suspected.
    pub(super) async fn connect(&mut self) -> Result<bool, Error> {
        let Some(peers) = self.inner.peers.clone() else {
            return Ok(false);
        };
        let group = match &self.group {
            Some(group) => group.clone(),
            None => self.inner.group(self.partition)?,
        };
        let mut untried = match self.untried.take() {
            Some(untried) => untried,
            None => {
                let mut others: Vec<_> = group.others().collect();
                others.reverse();
                if self.class.is_some() {
                    others.sort_by_key(|index| Reverse(self.drawbacks(&group, *index)));
                }
                others
            }
        };
        let found = self.open_one(&peers, &group, &mut untried).await;
        (self.untried, self.group) = (Some(untried), Some(group));
        if let Some(source) = found.as_ref().filter(|_| self.class.is_some()) {
            let slow = &self.inner.slow_sources;
            slow.begin(&source.node, self.class, Instant::now());
        }
        self.remote = found;
        Ok(self.remote.is_some())
    }

    /// Returns a stream from the last of these replicas that can be asked, and removes that one and
    /// those behind it. A stream that was kept in reserve does not count as a try.
    async fn open_one(
        &mut self,
        peers: &Peers,
        group: &Group,
        untried: &mut Vec<usize>,
    ) -> Option<Source> {
        while let Some(index) = untried.pop() {
            let Some(member) = group.members.get(index) else {
                continue;
            };
            let node = &member.node.node;
            let kept = self.reserve.take_if(|kept| kept.node == *node);
            // It begins at the start of the block.
            if let Some(mut kept) = kept.filter(|_| self.given == 0) {
                kept.stays_until = Some(Instant::now() + AVOIDED);
                // Its stream may have broken meanwhile. Then the replica is asked again.
                untried.push(index);
                return Some(kept);
            }
            let wanted = if self.only_next { 1 } else { self.left.len() };
            let call = FetchCall {
                partition: self.partition,
                blocks: self.left.iter().take(wanted).copied().collect(),
                row: None,
                in_pieces: self.in_pieces,
                from: self.given as u32,
            };
            let remaining: u64 = call.blocks.iter().map(|b| u64::from(b.len)).sum();
            let remaining = remaining.saturating_sub(self.given as u64);
            let class = self.class.unwrap_or(Class::Data { remaining });
            let opened = peers.stream(node, method::FETCH, class).await;
            let Ok(mut stream) = opened else {
                continue;
            };
            let asked = stream.send.send(codec::encode(&call).into()).await;
            if asked.is_ok() && stream.send.finish().await.is_ok() {
                return Some(Source {
                    is_last_resort: self.last_resort,
                    ..Source::new(*node, stream.receive)
                });
            }
        }
        None
    }
}
