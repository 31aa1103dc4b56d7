//! Connections of the pool: accepting, keeping, and closing idle ones.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::admission::Pass;
use super::{
    Carrier, Connection, DIAL_TIMEOUT, Dial, Figures, Inner, Lane, NotAdmitted, REMEMBERED, Usage,
    UsageGuard,
};
use crate::error::Error;
use crate::transport::{Incoming, Peer};
use archipel_base::NodeId;
use tokio::sync::watch;

/// A connection that was unused for this long is closed.
const IDLE: Duration = Duration::from_secs(60);

/// A kept connection.
#[derive(Clone)]
pub(super) struct Link<T> {
    pub connection: T,
    pub usage: Usage,
}

/// Closes idle connections until the pool is closed or dropped.
pub(super) async fn close_idle<C: Carrier>(inner: Weak<Inner<C>>) {
    loop {
        tokio::time::sleep(IDLE / 6).await;
        let Some(inner) = inner.upgrade() else { return };
        if inner.is_closed() {
            return;
        }
        let links = inner.links.lock();
        let idle = links.values().flatten().filter(|l| l.usage.idle() > IDLE);
        idle.for_each(|link| link.connection.close("idle"));
    }
}

impl<C: Carrier> Inner<C> {
    /// Accepts incoming connections until the pool is closed.
    pub(super) async fn listen(self: Arc<Self>) {
        let mut closed = self.closed.subscribe();
        loop {
            let attempt = tokio::select! {
                biased;
                _ = closed.wait_for(|closed| *closed) => return,
                attempt = self.carrier.next_attempt() => attempt,
            };
            let Some((from, attempt)) = attempt else {
                return;
            };
            // Before it takes any room: an address that is not its own would take a member's.
            let attempt = match self.admission.is_busy() {
                true => self.carrier.validate(attempt),
                false => Some(attempt),
            };
            let Some(attempt) = attempt else {
                continue;
            };
            let Some(pass) = self.admission.enter(from) else {
                self.carrier.refuse(attempt);
                self.refusals.note(from, "too many at once");
                continue;
            };
            let inner = self.clone();
            tokio::spawn(async move {
                match inner.admit(attempt, pass).await {
                    Ok(()) => inner.admission.proven(from),
                    Err(NotAdmitted::Refused(why)) => inner.refusals.note(from, &why),
                    Err(NotAdmitted::Gone(why)) => {
                        tracing::debug!(%from, why, "a connection ended before it was proven");
                    }
                }
            });
        }
    }

    async fn admit(self: &Arc<Self>, attempt: C::Attempt, _pass: Pass) -> Result<(), NotAdmitted> {
        let admitted = tokio::time::timeout(DIAL_TIMEOUT, self.carrier.admit(attempt)).await;
        let admitted = admitted.map_err(|_| "it did not prove itself in time")?;
        let (peer, lane, connection) = admitted?;
        if lane.0 > C::CONTENT_LANES {
            connection.close("an unknown lane");
            return Err("an unknown lane".into());
        }
        self.keep(peer, lane, connection);
        Ok(())
    }

    /// Keeps a connection and accepts its streams.
    pub(super) fn keep(self: &Arc<Self>, peer: NodeId, lane: Lane, connection: C::Connection) {
        let link = Link {
            connection,
            usage: Usage::new(),
        };
        self.count(peer, |_| {});
        let mut links = self.links.lock();
        links.entry((peer, lane)).or_default().push(link.clone());
        drop(links);
        if self.is_closed() {
            link.connection.close("closing");
        }
        tokio::spawn(self.clone().take_streams(peer, lane, link));
    }

    async fn take_streams(self: Arc<Self>, peer: NodeId, lane: Lane, link: Link<C::Connection>) {
        while let Some(stream) = link.connection.accept(peer, &link.usage).await {
            self.count(peer, |counts| counts.streams += 1);
            let offered = Incoming { from: peer, stream };
            if self.incoming.send(offered).await.is_err() {
                break;
            }
        }
        link.connection.close("closing");
        let figures = link.connection.figures();
        let mut links = self.links.lock();
        if let Some(kept) = links.get_mut(&(peer, lane)) {
            kept.retain(|kept| kept.connection.id() != link.connection.id());
            if kept.is_empty() {
                links.remove(&(peer, lane));
            }
        }
        drop(links);
        self.count(peer, |counts| {
            counts.gone.sent_bytes += figures.sent_bytes;
            counts.gone.received_bytes += figures.received_bytes;
            counts.gone.lost_packets += figures.lost_packets;
        });
        self.forget_peers();
    }

    /// Forgets the counts of peers without a connection while there are too many, those with the
    /// fewest streams first: a stranger with the secret may connect under any number of names.
    fn forget_peers(&self) {
        if self.counts.lock().len() <= REMEMBERED {
            return;
        }
        let links = self.links.lock();
        let connected: BTreeSet<NodeId> = links.keys().map(|(peer, _)| *peer).collect();
        drop(links);
        let mut counts = self.counts.lock();
        let away = counts.iter().filter(|(peer, _)| !connected.contains(peer));
        let mut away: Vec<_> = away.map(|(peer, of)| (of.streams, *peer)).collect();
        away.sort_unstable();
        for (_, peer) in away.iter().rev().skip(REMEMBERED) {
            counts.remove(peer);
        }
    }

    /// Returns the figures of all open connections.
    pub(super) fn figures(&self) -> Vec<(NodeId, Figures)> {
        let links = self.links.lock();
        let all = links.iter().flat_map(|((peer, _), links)| {
            let figures = links.iter().map(|link| link.connection.figures());
            figures.map(|figures| (*peer, figures))
        });
        all.collect()
    }

    pub(super) fn close_links(&self) {
        let links = std::mem::take(&mut *self.links.lock());
        for link in links.values().flatten() {
            link.connection.close("closing");
        }
    }

    /// Returns an existing connection to a peer.
    pub(super) fn open_link(
        &self,
        peer: NodeId,
        lane: Lane,
    ) -> Option<(C::Connection, UsageGuard)> {
        let links = self.links.lock();
        let mut kept = links.get(&(peer, lane))?.iter().rev();
        let link = kept.find(|link| link.connection.is_open())?;
        // The lock is still held, so that the connection cannot be closed as idle in between.
        Some((link.connection.clone(), link.usage.hold()))
    }

    /// Returns a connection to a peer, an existing one or a new one.
    pub(super) async fn link(
        self: &Arc<Self>,
        peer: &Peer,
        lane: Lane,
    ) -> Result<(C::Connection, UsageGuard), Error> {
        if self.is_closed() {
            return Err(Error::Closed);
        }
        if let Some(link) = self.open_link(peer.id, lane) {
            return Ok(link);
        }
        let mut dial = self.join_dial(peer, lane);
        while dial.changed().await.is_ok() {}
        if let Some(error) = dial.borrow().clone() {
            return Err(error);
        }
        let ended = || Error::Unreachable(peer.id, "the connection ended at once".into());
        self.open_link(peer.id, lane).ok_or_else(ended)
    }

    /// Returns the dial of a peer that is in progress, or begins one. It runs in its own task,
    /// because a caller may give up and the others need the connection as well.
    fn join_dial(self: &Arc<Self>, peer: &Peer, lane: Lane) -> Dial {
        let key = (peer.clone(), lane);
        let mut dialling = self.dialling.lock();
        let running = dialling.get(&key);
        // The sender of a task that has panicked is gone.
        if let Some(dial) = running.filter(|dial| dial.has_changed().is_ok()) {
            return dial.clone();
        }
        let (ended, dial) = watch::channel(None);
        dialling.insert(key.clone(), dial.clone());
        let inner = self.clone();
        tokio::spawn(async move {
            let failed = inner.dial_peer(&key.0, lane).await.err();
            // Before the callers know the end, so that their next attempt is a new dial.
            inner.dialling.lock().remove(&key);
            ended.send_replace(failed);
        });
        dial
    }
}
