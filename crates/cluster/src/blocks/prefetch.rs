//! Asking for a row and its blocks at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use archipel_base::Stamp;
use archipel_base::codec;
use archipel_net::Class;
use archipel_storage as storage;
use archipel_storage::Value;

use super::Source;
use crate::error::Error;
use crate::group::Group;
use crate::inner::Inner;
use crate::peers::CALL_TIMEOUT;
use crate::register::Answer;
use crate::wire::{FetchCall, RowCall, RowReply, method};

/// The stream on which a replica of another node sends a row and then its blocks: content is on its way
/// while the other replicas confirm that the row is the newest.
#[derive(Default)]
pub(crate) struct Prefetch(Mutex<Option<(Stamp, Source)>>);

impl Prefetch {
    /// Asks for a row; keeps the stream.
    pub async fn ask(
        &self,
        inner: &Arc<Inner>,
        group: &Group,
        place: usize,
        call: RowCall,
    ) -> Result<Answer<Value>, Error> {
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
            *self.lock() = Some((version.stamp, Source { node, receive }));
        }
        Ok(answer)
    }

    /// The stream, if it brings the blocks of the version with this stamp.
    pub fn take(&self, stamp: Stamp) -> Option<Source> {
        let taken = self.lock().take();
        taken
            .filter(|(of, _)| *of == stamp)
            .map(|(_, source)| source)
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Stamp, Source)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
