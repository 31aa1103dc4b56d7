//! Reading a row and its blocks with one request.

use std::sync::Arc;
use std::time::Duration;

use archipel_base::codec;
use archipel_base::{Stamp, boxed};
use archipel_net::Class;
use archipel_storage as storage;
use archipel_storage::Value;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::Source;
use crate::data::Data;
use crate::error::Error;
use crate::node::group::Group;
use crate::node::wire::{FetchCall, RowCall, RowReply, method};
use crate::register::Answer;

/// The shortest time that a stream on its way is awaited before another replica is asked.
const LEAST_PATIENCE: Duration = Duration::from_millis(20);

/// The stream on which a replica of another node sends a row and then its blocks. The content is on
/// its way while the other replicas confirm that the row is the newest.
#[derive(Default)]
pub(crate) struct Prefetch {
    state: Mutex<State>,
    /// Notified when a replica answers or fails.
    ended: Notify,
}

#[derive(Default)]
struct State {
    /// The number of replicas that were asked and have not answered.
    awaited: usize,
    /// The usual time of an answer, or more.
    patience: Duration,
    came: Option<(Stamp, Source)>,
}

/// A replica that was asked, until it answers or fails.
struct Awaited<'a>(&'a Prefetch);

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.0.lock().awaited -= 1;
        self.0.ended.notify_waiters();
    }
}

impl Prefetch {
    /// Asks a replica for a row, and keeps the stream.
    #[boxed]
    pub async fn ask(
        &self,
        inner: &Arc<Data>,
        group: &Group,
        index: usize,
        call: RowCall,
    ) -> Result<Answer<Value>, Error> {
        let _awaited = self.awaits(inner.round_trip(group).max(LEAST_PATIENCE));
        let member = group.member(index)?;
        let peers = inner.peers()?;
        let broken = |why: &dyn std::fmt::Display| Error::Unavailable(why.to_string());
        // The row comes first. The replica tells how long the content is, once it has read the row.
        let class = Class::Data { remaining: 0 };
        let asking = async {
            let node = &member.node.node;
            let mut stream = peers.stream(node, method::FETCH, class).await?;
            let call = FetchCall {
                partition: group.partition,
                blocks: Vec::new(),
                row: Some(call),
                in_pieces: true,
                from: 0,
            };
            let sent = stream.send.send(codec::encode(&call).into()).await;
            sent.map_err(|error| broken(&error))?;
            stream.send.finish().await.map_err(|error| broken(&error))?;
            let reply = stream.receive.receive().await;
            let reply = reply.map_err(|error| broken(&error))?;
            let reply = reply.ok_or_else(|| broken(&"a row does not arrive"))?;
            let reply: RowReply = codec::decode(&reply).map_err(|error| broken(&error))?;
            Ok::<_, Error>((reply, stream.receive))
        };
        let (reply, receive) = tokio::time::timeout(peers.times.call, asking)
            .await
            .map_err(|_| broken(&"a row does not arrive"))??;
        let answer = reply.0.map_err(storage::Error::from)?;
        if let Answer::Found { version, .. } = &answer {
            let node = member.node.node;
            let mut state = self.lock();
            if state
                .came
                .as_ref()
                .is_none_or(|(of, _)| *of <= version.stamp)
            {
                state.came = Some((version.stamp, Source::new(node, receive)));
            }
        }
        Ok(answer)
    }

    fn awaits(&self, patience: Duration) -> Awaited<'_> {
        let mut state = self.lock();
        state.awaited += 1;
        state.patience = patience;
        drop(state);
        Awaited(self)
    }

    /// Takes the stream if it brings the blocks of the version with this stamp. Other replicas may
    /// have sent the row sooner than the one that was asked for the payload. So this waits about a
    /// round trip for a stream that is on its way.
    #[boxed]
    pub async fn take(&self, stamp: Stamp) -> Option<Source> {
        let patience = self.lock().patience;
        let taken = async {
            loop {
                let ended = self.ended.notified();
                {
                    let mut state = self.lock();
                    if let Some((_, source)) = state.came.take_if(|(of, _)| *of == stamp) {
                        return Some(source);
                    }
                    if state.awaited == 0 {
                        return None;
                    }
                }
                ended.await;
            }
        };
        tokio::time::timeout(patience, taken).await.ok().flatten()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

#[cfg(test)]
mod tests {
    use archipel_base::{NodeId, Writer};
    use archipel_net::ReceiveFrames;
    use async_trait::async_trait;
    use bytes::Bytes;

    use super::*;

    struct Nothing;

    #[async_trait]
    impl ReceiveFrames for Nothing {
        async fn receive(&mut self) -> Result<Option<Bytes>, archipel_net::Error> {
            Ok(None)
        }
    }

    async fn answer_later(prefetch: &Prefetch, awaited: Awaited<'_>, stamp: Stamp) {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let source = Source::new(NodeId::default(), Box::new(Nothing));
        prefetch.lock().came = Some((stamp, source));
        drop(awaited);
    }

    /// Returns true if a stream that comes after 50 ms is taken when the wait is this long.
    async fn comes(came: Stamp, patience: u64) -> bool {
        let prefetch = Prefetch::default();
        let wanted = Stamp::new(7, 0, Writer(1));
        let patience = Duration::from_millis(patience);
        let answer = answer_later(&prefetch, prefetch.awaits(patience), came);
        let (_, taken) = futures_util::join!(answer, prefetch.take(wanted));
        taken.is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn stream_on_its_way_is_awaited_for_its_patience() {
        let stamp = |millis| Stamp::new(millis, 0, Writer(1));
        assert!(comes(stamp(7), 60).await);
        assert!(!comes(stamp(7), 40).await, "it came too late");
        assert!(!comes(stamp(6), 60).await, "it is of an older version");
        let nobody = Prefetch::default();
        let begun = tokio::time::Instant::now();
        let taken = nobody.take(stamp(7)).await;
        assert!(taken.is_none() && begun.elapsed().is_zero());
    }
}
