//! Asking for a row and its blocks at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use archipel_base::Stamp;
use archipel_base::codec;
use archipel_net::Class;
use archipel_storage as storage;
use archipel_storage::Value;
use tokio::sync::Notify;

use super::Source;
use crate::error::Error;
use crate::group::Group;
use crate::inner::Inner;
use crate::peers::CALL_TIMEOUT;
use crate::register::Answer;
use crate::wire::{FetchCall, RowCall, RowReply, method};

/// How long at least a stream that is on its way is awaited before another replica is asked.
const LEAST_PATIENCE: Duration = Duration::from_millis(20);

/// The stream on which a replica of another node sends a row and then its blocks: content is on its way
/// while the other replicas confirm that the row is the newest.
#[derive(Default)]
pub(crate) struct Prefetch {
    state: Mutex<State>,
    /// Somebody answered, or failed.
    ended: Notify,
}

#[derive(Default)]
struct State {
    /// How many were asked and have not answered.
    awaited: usize,
    /// How long an answer usually takes, or more.
    patience: Duration,
    came: Option<(Stamp, Source)>,
}

/// A replica that was asked, until it has answered or failed.
struct Awaited<'a>(&'a Prefetch);

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.0.lock().awaited -= 1;
        self.0.ended.notify_waiters();
    }
}

impl Prefetch {
    /// Asks for a row; keeps the stream.
    pub async fn ask(
        &self,
        inner: &Arc<Inner>,
        group: &Group,
        place: usize,
        call: RowCall,
    ) -> Result<Answer<Value>, Error> {
        let _awaited = self.awaits(inner.round_trip(group).max(LEAST_PATIENCE));
        let unknown = || Error::Unavailable("the replica is not known".into());
        let member = group.members.get(place).ok_or_else(unknown)?;
        let peers = inner.peers.as_ref().ok_or_else(unknown)?;
        let broken = |why: &dyn std::fmt::Display| Error::Unavailable(why.to_string());
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
            let reply = reply.ok_or_else(|| broken(&"a row does not come"))?;
            let reply: RowReply = codec::decode(&reply).map_err(|error| broken(&error))?;
            Ok::<_, Error>((reply, stream.receive))
        };
        let (reply, receive) = tokio::time::timeout(CALL_TIMEOUT, asking)
            .await
            .map_err(|_| broken(&"a row does not come"))??;
        let answer = reply.0.map_err(storage::Error::from)?;
        if let Answer::Found { version, .. } = &answer {
            let node = member.node.node;
            let mut state = self.lock();
            if state
                .came
                .as_ref()
                .is_none_or(|(of, _)| *of <= version.stamp)
            {
                state.came = Some((version.stamp, Source { node, receive }));
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

    /// The stream, if it brings the blocks of the version with this stamp. The others may have told the row sooner than the one who was
    /// asked for all of it: what is on its way is awaited for about a round trip.
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        let source = Source {
            node: NodeId::default(),
            receive: Box::new(Nothing),
        };
        prefetch.lock().came = Some((stamp, source));
        drop(awaited);
    }

    /// Whether the stream is had that comes after 50 ms, if it is awaited for so long.
    async fn comes(came: Stamp, patience: u64) -> bool {
        let prefetch = Prefetch::default();
        let wanted = Stamp::new(7, 0, Writer(1));
        let patience = Duration::from_millis(patience);
        let answer = answer_later(&prefetch, prefetch.awaits(patience), came);
        let (_, taken) = futures_util::join!(answer, prefetch.take(wanted));
        taken.is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_on_its_way_is_awaited() {
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
