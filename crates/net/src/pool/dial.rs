//! Dials of the pool: the addresses of a peer are begun one shortly after the other.
//!
//! A name often has an address that leads nowhere, such as one of IPv6 in a network without it.
//! So no address waits until the one before it has failed (RFC 8305, "happy eyeballs"): the first
//! that works is kept, and the other dials are dropped, which closes their connections.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::NodeId;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout_at};

use super::{Carrier, DIAL_TIMEOUT, Inner, Lane, REMEMBERED};
use crate::error::Error;
use crate::lookup::look_up;
use crate::transport::Peer;

/// The head start of an address before the next one is dialled, too, unless it fails sooner.
pub(super) const HEAD_START: Duration = Duration::from_millis(250);
/// The head start of the address that worked last. On a long link a connection takes longer than the
/// usual head start, and a second one would be made each time only to be dropped.
pub(super) const HEAD_START_OF_KNOWN: Duration = Duration::from_secs(1);
/// The most addresses of a name that are dialled.
const MOST_ADDRESSES: usize = 8;
/// The time for which the address that worked is dialled first. After that, the order in which the
/// peer tells its addresses counts again: an earlier one may be better, and work again.
const PREFERRED: Duration = Duration::from_secs(600);

/// The address at which each peer was reached.
#[derive(Default)]
pub(super) struct Reached(Mutex<BTreeMap<NodeId, At>>);

#[derive(Clone)]
struct At {
    /// The host and the port, as the peer tells them.
    name: String,
    address: SocketAddr,
    since: Instant,
}

impl Reached {
    fn note(&self, peer: NodeId, name: &str, address: SocketAddr) {
        // A new connection to the same address does not make it preferred for longer.
        let known = self.of(&peer);
        if known.is_some_and(|at| at.name == name && at.address == address) {
            return;
        }
        let mut all = self.0.lock();
        let at = At {
            name: name.to_owned(),
            address,
            since: Instant::now(),
        };
        all.insert(peer, at);
        if all.len() > REMEMBERED {
            all.pop_first();
        }
    }

    fn of(&self, peer: &NodeId) -> Option<At> {
        let at = self.0.lock().get(peer).cloned();
        at.filter(|at| at.since.elapsed() < PREFERRED)
    }
}

impl<C: Carrier> Inner<C> {
    /// Dials a host name or an address and proves the secret there.
    pub(super) async fn dial(
        &self,
        name: &str,
        expected: Option<NodeId>,
        lane: Lane,
    ) -> Result<(NodeId, C::Connection), String> {
        let found = look_up(name, DIAL_TIMEOUT).await;
        let found = found.map_err(|error| format!("{name}: {error}"))?;
        self.dial_any(name, found, expected, lane).await
    }

    /// Dials the addresses of a name, which share the time of one dial.
    pub(super) async fn dial_any(
        &self,
        name: &str,
        mut found: Vec<SocketAddr>,
        expected: Option<NodeId>,
        lane: Lane,
    ) -> Result<(NodeId, C::Connection), String> {
        found = interleaved(found);
        let at = expected.and_then(|peer| self.reached.of(&peer));
        let worked = |address: &SocketAddr| at.as_ref().is_some_and(|at| *address == at.address);
        let head_start = prefer(&mut found, worked);
        found.truncate(MOST_ADDRESSES);
        let until = Instant::now() + DIAL_TIMEOUT;
        let attempts = found.into_iter().map(|address| async move {
            match timeout_at(until, self.carrier.dial(address, expected, lane)).await {
                Ok(Ok((peer, connection))) => Ok((address, peer, connection)),
                Ok(Err(error)) => Err(format!("{name}: {error}")),
                Err(_) => Err(format!("{name}: no answer")),
            }
        });
        let attempts: Vec<_> = attempts.collect();
        let none = format!("{name}: the name has no address");
        let (address, peer, connection) = first_of(attempts, head_start, none).await?;
        self.admission.proven(address);
        self.reached.note(peer, name, address);
        Ok((peer, connection))
    }

    /// Dials the addresses of a peer, and keeps the first connection.
    pub(super) async fn dial_peer(self: &Arc<Self>, peer: &Peer, lane: Lane) -> Result<(), Error> {
        // The dial before this one may have ended after its caller looked.
        if self.open_link(peer.id, lane).is_some() {
            return Ok(());
        }
        let mut names: Vec<&String> = peer.addresses.iter().collect();
        let at = self.reached.of(&peer.id);
        let worked = |name: &&String| at.as_ref().is_some_and(|at| **name == at.name);
        let head_start = prefer(&mut names, worked);
        let names = names.into_iter();
        let attempts: Vec<_> = names
            .map(|name| self.dial(name, Some(peer.id), lane))
            .collect();
        match first_of(attempts, head_start, "no address is known".into()).await {
            Ok((_, connection)) => {
                self.keep(peer.id, lane, connection);
                Ok(())
            }
            Err(why) => {
                self.count(peer.id, |counts| counts.failures += 1);
                Err(Error::Unreachable(peer.id, why))
            }
        }
    }
}

/// Moves the one that worked last to the front. Returns the head start of the first one.
fn prefer<T>(all: &mut [T], worked: impl Fn(&T) -> bool) -> Duration {
    all.sort_by_key(|one| !worked(one));
    match all.first().is_some_and(worked) {
        true => HEAD_START_OF_KNOWN,
        false => HEAD_START,
    }
}

/// Returns the addresses with the families in turn (RFC 8305), in their order apart from that. Only
/// the first few are dialled, and all of one family may lead nowhere.
fn interleaved(found: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let is_first = found.first().map(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = found
        .into_iter()
        .partition(|address| Some(address.is_ipv6()) == is_first);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut all = Vec::new();
    loop {
        let next = [first.next(), second.next()];
        if next == [None, None] {
            return all;
        }
        all.extend(next.into_iter().flatten());
    }
}

/// Begins the attempts one after the other, each when the one before it has failed or has had its
/// head start, which is `head_start` for the first one. Returns the first success, and drops the
/// other attempts. If all fail, returns the reason of the last failure, or `none` if there are no
/// attempts.
async fn first_of<T>(
    attempts: Vec<impl Future<Output = Result<T, String>>>,
    mut head_start: Duration,
    none: String,
) -> Result<T, String> {
    let mut failed = none;
    let mut attempts = attempts.into_iter().peekable();
    let mut running = FuturesUnordered::new();
    loop {
        running.extend(attempts.next());
        let has_more = attempts.peek().is_some();
        let pause = std::mem::replace(&mut head_start, HEAD_START);
        tokio::select! {
            biased;
            ended = running.next() => match ended {
                Some(Ok(first)) => return Ok(first),
                Some(Err(why)) => failed = why,
                None => return Err(failed),
            },
            () = sleep(pause), if has_more => {}
        }
    }
}
