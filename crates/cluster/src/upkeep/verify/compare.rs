//! Comparing the rows that two replicas of a partition hold.
//!
//! First the digests of partitions are compared, which costs 40 bytes for each. If digests still
//! differ after a while, the two nodes are told to exchange what they lack. If that does not help,
//! both sides list their rows twice, and a difference that is the same both times is a finding. So
//! writes that are on their way, or that one replica missed in a race, do not count as differences.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::{NodeId, PartitionId, Stamp};
use archipel_net::Class;
use archipel_storage::rows::{Granularity, WindowDigest};
use archipel_storage::{ListEntry, ListQuery, RowReader};
use bytes::Bytes;

use super::message::{Digest, DigestCall, DigestReply, Findings};
use crate::data::list::ask;
use crate::error::Error;
use crate::layout::{Epoch, PARTITIONS, StoreName, all_partitions};
use crate::node::epochs::Check;
use crate::node::wire::{Address, method};
use crate::register::epoch::Member;
use crate::upkeep::Upkeep;

/// The pauses before digests are compared again.
const PAUSES: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];
/// After this pause, a difference does not come from writes on their way alone. The two nodes are
/// told to exchange what they lack.
const EXCHANGE: Duration = PAUSES[1];
/// The time between the two lists of rows.
const SETTLE: Duration = Duration::from_secs(3);
/// The most rows of a partition that are listed.
const MAX_ROWS: usize = 500_000;
/// The number of rows that are named for a partition that differs.
const NAMED: usize = 3;
/// The most digests that one call may ask for.
const MAX_DIGESTS: usize = PARTITIONS as usize + 1;

/// A row as a replica holds it: its stamp, and whether it is live.
type Held = (Stamp, bool);
/// Rows that differ: as this node holds them, and as the other does.
type Differences = BTreeMap<Bytes, (Option<Held>, Option<Held>)>;

/// Returns the replicas that this node compares with its own, by node. One node of each pair makes
/// the comparison.
pub(super) fn counterparts(epoch: &Epoch, me: StoreName) -> BTreeMap<NodeId, Vec<Address>> {
    let mut all: BTreeMap<NodeId, Vec<Address>> = BTreeMap::new();
    for partition in all_partitions() {
        let versions = epoch.replicas(partition);
        // While data moves, the new replicas are not complete yet.
        let everywhere =
            |member: &Member<StoreName>| versions.iter().all(|replicas| replicas.contains(member));
        let members = versions.first().into_iter().flatten();
        let mut members: Vec<_> = members.filter(|member| everywhere(member)).collect();
        if !members.iter().any(|member| member.node == me) {
            continue;
        }
        members.retain(|member| member.node > me);
        for member in members {
            let address = Address {
                epoch: epoch.number(),
                incarnation: member.incarnation,
                partition,
            };
            all.entry(member.node.node).or_default().push(address);
        }
    }
    all
}

/// Compares this node's replicas with those of another node.
pub(super) async fn compare(
    upkeep: &Arc<Upkeep>,
    node: NodeId,
    replicas: Vec<Address>,
    findings: &mut Findings,
) {
    let asked = replicas.len() as u64;
    match differing(upkeep, node, replicas).await {
        Err(error) => findings.unchecked.push(format!(
            "the replicas of node {} cannot be compared: {error}",
            node.short()
        )),
        Ok((differing, missing)) => {
            findings.compared += asked - missing;
            if missing > 0 {
                let short = node.short();
                findings.unchecked.push(format!(
                    "node {short} does not hold {missing} of its partitions under this layout"
                ));
            }
            for address in differing {
                explain(upkeep, node, address.partition, findings).await;
            }
        }
    }
}

/// Returns the partitions whose digests stay different, and how many partitions the other node does
/// not hold.
async fn differing(
    upkeep: &Arc<Upkeep>,
    node: NodeId,
    replicas: Vec<Address>,
) -> Result<(Vec<Address>, u64), Error> {
    let (mut left, mut missing) = (replicas, 0);
    for pause in std::iter::once(Duration::ZERO).chain(PAUSES) {
        tokio::time::sleep(pause).await;
        let theirs = ask_digests(upkeep, node, left.clone()).await?;
        let mine = digests(upkeep, &left).await?;
        missing += theirs.iter().filter(|digest| digest.is_none()).count() as u64;
        let pairs = left.into_iter().zip(mine.into_iter().zip(theirs));
        let differ =
            pairs.filter(|(_, (mine, theirs))| theirs.is_some_and(|theirs| theirs != *mine));
        left = differ.map(|(address, _)| address).collect();
        if left.is_empty() {
            break;
        }
        if pause == EXCHANGE {
            upkeep.exchange(&node).await;
        }
    }
    Ok((left, missing))
}

async fn ask_digests(
    upkeep: &Arc<Upkeep>,
    node: NodeId,
    replicas: Vec<Address>,
) -> Result<Vec<Option<Digest>>, Error> {
    let peers = upkeep.peers()?;
    let wanted = replicas.len();
    let call = DigestCall { replicas };
    let DigestReply(digests) = peers
        .call(&node, method::DIGEST, Class::Background, &call)
        .await?;
    if digests.len() == wanted {
        Ok(digests)
    } else {
        Err(Error::Unavailable(
            "it answers with another number of digests".into(),
        ))
    }
}

/// Answers another node with the digests of local replicas.
pub(super) async fn serve(upkeep: &Upkeep, call: DigestCall) -> Result<DigestReply, Error> {
    if call.replicas.len() > MAX_DIGESTS {
        return Err(Error::Unavailable("too many digests at once".into()));
    }
    let epoch = upkeep.epochs.number();
    let here = call.replicas.into_iter().map(|address| {
        // The epoch of the request does not matter here, only the replica.
        let address = Address { epoch, ..address };
        (upkeep.epochs.check(&address) == Check::Pass).then_some(address.partition)
    });
    let here: Vec<Option<PartitionId>> = here.collect();
    let under = upkeep.epochs.under(epoch);
    let read = move |rows: &RowReader<'_>| {
        if under.superseded().is_some() {
            // Partitions that moved away may have been dropped.
            return Err(archipel_storage::Error::Busy("the layout changed".into()));
        }
        let each = here.into_iter();
        each.map(|partition| partition.map(|one| digest(rows, one)).transpose())
            .collect()
    };
    Ok(DigestReply(upkeep.store().read(read).await?))
}

/// Returns the digests of this node's own replicas.
async fn digests(upkeep: &Upkeep, replicas: &[Address]) -> Result<Vec<Digest>, Error> {
    let partitions: Vec<_> = replicas.iter().map(|address| address.partition).collect();
    let read = move |rows: &RowReader<'_>| {
        let each = partitions.into_iter();
        each.map(|partition| digest(rows, partition)).collect()
    };
    Ok(upkeep.store().read(read).await?)
}

fn digest(rows: &RowReader<'_>, partition: PartitionId) -> Result<Digest, archipel_storage::Error> {
    let mut total = (0, WindowDigest::default());
    for (_, window) in rows.windows(partition, Granularity::Month, 0, usize::MAX)? {
        total.0 += window.rows;
        total.1.toggle(window.digest);
    }
    Ok(Digest {
        rows: total.0,
        digest: total.1.0,
    })
}

/// Reports how a partition differs between this node and another, if it still does.
async fn explain(
    upkeep: &Arc<Upkeep>,
    node: NodeId,
    partition: PartitionId,
    findings: &mut Findings,
) {
    let differences = match lasting_differences(upkeep, node, partition).await {
        Ok(differences) => differences,
        Err(error) => {
            let short = node.short();
            let what = format!("partition {partition} differs from node {short}: {error}");
            return findings.unchecked.push(what);
        }
    };
    // A tombstone that only one of the two has hides nothing.
    let counts = |held: Option<Held>| held.is_some_and(|(_, live)| live);
    let told: Vec<_> = differences
        .iter()
        .filter(|(_, (mine, theirs))| {
            mine.is_some() && theirs.is_some() || counts(*mine) || counts(*theirs)
        })
        .collect();
    if told.is_empty() {
        return;
    }
    let keys = told.iter().take(NAMED).map(|(key, (mine, theirs))| {
        format!(
            "{}: {} here, {} there",
            key.escape_ascii(),
            state(*mine),
            state(*theirs)
        )
    });
    let keys: Vec<String> = keys.collect();
    findings.problem(format!(
        "partition {partition}: {} rows differ between node {} (here) and node {} (there); {}",
        told.len(),
        upkeep.epochs.me().node.short(),
        node.short(),
        keys.join("; ")
    ));
}

fn state(held: Option<Held>) -> String {
    match held {
        None => "nothing".into(),
        Some((stamp, true)) => format!("a value of {stamp}"),
        Some((stamp, false)) => format!("a deletion of {stamp}"),
    }
}

async fn lasting_differences(
    upkeep: &Arc<Upkeep>,
    node: NodeId,
    partition: PartitionId,
) -> Result<Differences, Error> {
    let mut first = differences(upkeep, node, partition).await?;
    if !first.is_empty() {
        tokio::time::sleep(SETTLE).await;
        let second = differences(upkeep, node, partition).await?;
        first.retain(|key, held| second.get(key) == Some(held));
    }
    Ok(first)
}

async fn differences(
    upkeep: &Arc<Upkeep>,
    node: NodeId,
    partition: PartitionId,
) -> Result<Differences, Error> {
    let me = upkeep.epochs.me().node;
    let mine = rows_at(upkeep, me, partition).await?;
    let mut theirs = rows_at(upkeep, node, partition).await?;
    let mut differ = Differences::new();
    for (key, held) in mine {
        let other = theirs.remove(&key);
        if other != Some(held) {
            differ.insert(key, (Some(held), other));
        }
    }
    let only_theirs = theirs.into_iter();
    differ.extend(only_theirs.map(|(key, held)| (key, (None, Some(held)))));
    Ok(differ)
}

/// Returns all written rows of a partition that a node holds.
async fn rows_at(
    upkeep: &Arc<Upkeep>,
    node: NodeId,
    partition: PartitionId,
) -> Result<BTreeMap<Bytes, Held>, Error> {
    let group = upkeep.group(partition)?;
    let gone = || Error::Unavailable("the layout changed meanwhile".into());
    let index = group.members.iter().position(|m| m.node.node == node);
    let index = index.ok_or_else(gone)?;
    let mut query = ListQuery::new(partition, Bytes::new());
    (query.tombstones, query.limit) = (true, upkeep.options.sizes.listed_keys);
    let mut rows = BTreeMap::new();
    loop {
        let page = ask(upkeep, &group, index, query.clone()).await?;
        let page = Arc::unwrap_or_clone(page.ok_or_else(gone)?).listing;
        rows.extend(page.entries.into_iter().filter_map(|entry| match entry {
            ListEntry::Row { key, metadata } if metadata.is_written() => {
                Some((key, (metadata.stamp, metadata.is_live())))
            }
            _ => None,
        }));
        match page.next {
            Some(_) if rows.len() > MAX_ROWS => {
                return Err(Error::Unavailable("it has too many rows to list".into()));
            }
            Some(next) => query.start = next,
            None => return Ok(rows),
        }
    }
}
