//! Connections: dialled, let in, kept, tidied away.

use std::sync::{Arc, Weak};
use std::time::Duration;

use archipel_base::NodeId;
use tokio::sync::OwnedSemaphorePermit;

use super::{Carrier, Connection, DIAL_TIMEOUT, Figures, Held, Inner, Lane, Usage, lock};
use crate::error::Error;
use crate::transport::{Incoming, Peer};

/// A connection that was not used for so long goes.
const IDLE: Duration = Duration::from_secs(60);

/// A connection that is kept.
#[derive(Clone)]
pub(super) struct Link<T> {
    pub connection: T,
    pub usage: Usage,
}

/// Closes connections that nobody uses.
pub(super) async fn tidy<C: Carrier>(inner: Weak<Inner<C>>) {
    loop {
        tokio::time::sleep(IDLE / 6).await;
        let Some(inner) = inner.upgrade() else { return };
        if inner.is_closed() {
            return;
        }
        let links = lock(&inner.links);
        let idle = links.values().flatten().filter(|l| l.usage.idle() > IDLE);
        idle.for_each(|link| link.connection.close("idle"));
    }
}

impl<C: Carrier> Inner<C> {
    /// Takes connections of others until all is closed.
    pub(super) async fn listen(self: Arc<Self>) {
        let mut closed = self.closed.subscribe();
        loop {
            let knock = tokio::select! {
                biased;
                _ = closed.wait_for(|closed| *closed) => return,
                knock = self.carrier.knock() => knock,
            };
            let Some((from, knock)) = knock else { return };
            let Ok(turn) = self.unproven.clone().try_acquire_owned() else {
                self.carrier.refuse(knock);
                self.refusals.note(from, "too many at once");
                continue;
            };
            let inner = self.clone();
            tokio::spawn(async move {
                if let Err(why) = inner.admit(knock, turn).await {
                    inner.refusals.note(from, &why);
                }
            });
        }
    }

    async fn admit(
        self: &Arc<Self>,
        knock: C::Knock,
        _turn: OwnedSemaphorePermit,
    ) -> Result<(), String> {
        let admitted = tokio::time::timeout(DIAL_TIMEOUT, self.carrier.admit(knock)).await;
        let admitted = admitted.map_err(|_| "it did not prove itself in time")?;
        let (peer, lane, connection) = admitted?;
        if lane.0 > C::CONTENT_LANES {
            connection.close("an unknown lane");
            return Err("an unknown lane".into());
        }
        self.keep(peer, lane, connection);
        Ok(())
    }

    /// Dials a name or an address, and proves the secret there.
    pub(super) async fn dial(
        &self,
        address: &str,
        expected: Option<NodeId>,
        lane: Lane,
    ) -> Result<(NodeId, C::Connection), String> {
        let text = |error: &dyn std::fmt::Display| format!("{address}: {error}");
        let found = tokio::time::timeout(DIAL_TIMEOUT, tokio::net::lookup_host(address)).await;
        let found = found.map_err(|_| text(&"the name is not found in time"))?;
        let found: Vec<_> = found.map_err(|error| text(&error))?.collect();
        // A name with several addresses has no more time than one.
        let patience = DIAL_TIMEOUT / found.len().max(1) as u32;
        let mut why = text(&"the name has no address");
        for place in found {
            let dialled = self.carrier.dial(place, expected, lane);
            match tokio::time::timeout(patience, dialled).await {
                Ok(Ok(found)) => return Ok(found),
                Ok(Err(error)) => why = text(&error),
                Err(_) => why = text(&"no answer"),
            }
        }
        Err(why)
    }

    /// Remembers a connection, and takes the streams that come over it.
    pub(super) fn keep(
        self: &Arc<Self>,
        peer: NodeId,
        lane: Lane,
        connection: C::Connection,
    ) -> Link<C::Connection> {
        let link = Link {
            connection,
            usage: Usage::new(),
        };
        self.count(peer, |_| {});
        let mut links = lock(&self.links);
        links.entry((peer, lane)).or_default().push(link.clone());
        drop(links);
        if self.is_closed() {
            link.connection.close("closing");
        }
        tokio::spawn(self.clone().take_streams(peer, lane, link.clone()));
        link
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
        let mut links = lock(&self.links);
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
    }

    /// What is known of the connections there are.
    pub(super) fn figures(&self) -> Vec<(NodeId, Figures)> {
        let links = lock(&self.links);
        let all = links.iter().flat_map(|((peer, _), links)| {
            let figures = links.iter().map(|link| link.connection.figures());
            figures.map(|figures| (*peer, figures))
        });
        all.collect()
    }

    pub(super) fn close_links(&self) {
        let links = std::mem::take(&mut *lock(&self.links));
        for link in links.values().flatten() {
            link.connection.close("closing");
        }
    }

    fn open_link(&self, peer: NodeId, lane: Lane) -> Option<(C::Connection, Held)> {
        let links = lock(&self.links);
        let mut kept = links.get(&(peer, lane))?.iter().rev();
        let link = kept.find(|link| link.connection.is_open())?;
        // While it is still locked: nobody tidies it away meanwhile.
        Some((link.connection.clone(), link.usage.hold()))
    }

    /// The connection to a peer, or a new one.
    pub(super) async fn link(
        self: &Arc<Self>,
        peer: &Peer,
        lane: Lane,
    ) -> Result<(C::Connection, Held), Error> {
        if self.is_closed() {
            return Err(Error::Closed);
        }
        if let Some(link) = self.open_link(peer.id, lane) {
            return Ok(link);
        }
        // In a task of its own: who asks may give up, and the next one wants it all the same.
        let (inner, peer) = (self.clone(), peer.clone());
        let dialled = tokio::spawn(async move { inner.dial_peer(&peer, lane).await });
        dialled.await.unwrap_or(Err(Error::Closed))
    }

    /// Dials a peer; one does at a time.
    async fn dial_peer(
        self: &Arc<Self>,
        peer: &Peer,
        lane: Lane,
    ) -> Result<(C::Connection, Held), Error> {
        let turn = {
            let mut dialling = lock(&self.dialling);
            dialling.entry((peer.id, lane)).or_default().clone()
        };
        let _turn = turn.lock().await;
        if let Some(link) = self.open_link(peer.id, lane) {
            return Ok(link);
        }
        let mut why = String::from("no address is known");
        for address in peer.addresses.iter() {
            match self.dial(address, Some(peer.id), lane).await {
                Ok((_, connection)) => {
                    let link = self.keep(peer.id, lane, connection);
                    return Ok((link.connection, link.usage.hold()));
                }
                Err(error) => why = error,
            }
        }
        self.count(peer.id, |counts| counts.failures += 1);
        Err(Error::Unreachable(peer.id, why))
    }
}
