//! Streams of frames on a TCP connection.

use std::sync::Arc;
use std::task::Poll;

use archipel_base::NodeId;
use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::Instant;

use super::connection::{Shared, when};
use crate::error::Error;
use crate::frames;
use crate::pool::UsageGuard;
use crate::transport::{Class, ReceiveFrames, SendFrames};

pub(super) struct Sender {
    shared: Arc<Shared>,
    peer: NodeId,
    id: u64,
    class: Class,
    finished: bool,
    /// Keeps the connection from being closed as idle.
    _held: UsageGuard,
}

impl Sender {
    pub fn new(
        shared: Arc<Shared>,
        peer: NodeId,
        id: u64,
        class: Class,
        held: UsageGuard,
    ) -> Sender {
        Sender {
            shared,
            peer,
            id,
            class,
            finished: false,
            _held: held,
        }
    }
}

#[async_trait]
impl SendFrames for Sender {
    async fn send(&mut self, frame: Bytes) -> Result<(), Error> {
        let (id, peer) = (self.id, self.peer);
        let prefix = frames::prefix(peer, &frame)?;
        let room = when(&self.shared, peer, |state, waker| {
            let broken = |why: &str| Poll::Ready(Err(Error::Broken(peer, why.into())));
            if let Some(why) = state.broken() {
                return broken(why);
            }
            match state.outbox.room(id, waker) {
                None => broken("the peer stopped the stream"),
                Some(false) => Poll::Pending,
                Some(true) => Poll::Ready(Ok(())),
            }
        });
        room.await?;
        let class = self.class.after(frame.len());
        let mut state = self.shared.state();
        if class != self.class {
            self.class = class;
            state.outbox.set_class(id, class);
        }
        state.outbox.push(id, Bytes::copy_from_slice(&prefix));
        state.outbox.push(id, frame);
        drop(state);
        self.shared.work.notify_one();
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), Error> {
        self.finished = true;
        let mut state = self.shared.state();
        if let Some(why) = state.broken() {
            return Err(Error::Broken(self.peer, why.clone()));
        }
        state.outbox.finish(self.id);
        drop(state);
        self.shared.work.notify_one();
        Ok(())
    }

    fn set_class(&mut self, class: Class) {
        self.class = class;
        self.shared.state().outbox.set_class(self.id, class);
        self.shared.work.notify_one();
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if !self.finished {
            self.shared.state().reset(self.id);
            self.shared.work.notify_one();
        }
    }
}

pub(super) struct Receiver {
    shared: Arc<Shared>,
    peer: NodeId,
    id: u64,
    _held: UsageGuard,
}

impl Receiver {
    pub fn new(shared: Arc<Shared>, peer: NodeId, id: u64, held: UsageGuard) -> Receiver {
        Receiver {
            shared,
            peer,
            id,
            _held: held,
        }
    }
}

#[async_trait]
impl ReceiveFrames for Receiver {
    async fn receive(&mut self) -> Result<Option<Bytes>, Error> {
        let id = self.id;
        let received = when(&self.shared, self.peer, |state, waker| {
            state.take(id, waker, Instant::now())
        });
        let received = received.await;
        // The read may have queued credit for the peer.
        self.shared.work.notify_one();
        received
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.state().stop(self.id);
        self.shared.work.notify_one();
    }
}
