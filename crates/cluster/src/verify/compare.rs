//! Whether the replicas of a partition hold the same rows.
//!
//! First a digest of each partition is compared, which costs 40 bytes for each. Where digests differ, and still do
//! after a while, the two nodes are told to exchange what they lack. Where that does not help, rows are listed on both
//! sides, twice: what differs in the same way both times is told. So writes that are on their way, or that one replica missed
//! because of a race, are not taken for differences.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::{NodeId, PartitionId, Stamp};
use archipel_net::Class;
use archipel_storage::rows::{Fingerprint, Granularity};
use archipel_storage::{ListEntry, ListQuery, RowReader};
use bytes::Bytes;

use super::message::{Digest, DigestCall, DigestReply, Findings};
use crate::epochs::Check;
use crate::error::Error;
use crate::inner::Inner;
use crate::layout::{Epoch, PARTITIONS, StoreName, all_partitions};
use crate::list::ask;
use crate::register::epoch::Member;
use crate::wire::{Address, method};

/// How often digests are compared again, and the pauses before.
const PAUSES: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];
/// Digests that differ after a pause so long are not about writes on their way alone: the two nodes are told to exchange
/// what they lack.
const EXCHANGE: Duration = PAUSES[1];
/// How long lies between the two times that rows are listed.
const SETTLE: Duration = Duration::from_secs(3);
/// Rows of a partition that are listed at most.
const MAX_ROWS: usize = 500_000;
const PAGE: usize = 1000;
/// Rows that are named for a partition that differs.
const NAMED: usize = 3;
/// The most digests that one call may ask for.
const MAX_DIGESTS: usize = PARTITIONS as usize + 1;

/// What a replica holds of a row: its stamp, and whether it is live.
type Held = (Stamp, bool);
/// Rows that differ: as this node holds them, and as the other does.
type Differences = BTreeMap<Bytes, (Option<Held>, Option<Held>)>;

/// The replicas that this node compares its own with, by node: each pair is compared by one of the two.
pub(super) fn counterparts(epoch: &Epoch, me: StoreName) -> BTreeMap<NodeId, Vec<Address>> {
    let mut all: BTreeMap<NodeId, Vec<Address>> = BTreeMap::new();
    for partition in all_partitions() {
        let versions = epoch.replicas(partition);
        // While data moves, its new places are not whole yet.
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

/// Compares this node's replicas with those of another.
pub(super) async fn compare(
    inner: &Arc<Inner>,
    node: NodeId,
    replicas: Vec<Address>,
    findings: &mut Findings,
) {
    let asked = replicas.len() as u64;
    match differing(inner, node, replicas).await {
        Err(error) => findings.unchecked.push(format!(
            "the replicas of node {} cannot be compared: {error}",
            node.short()
        )),
        Ok((differing, missing)) => {
            findings.compared += asked - missing;
            if missing > 0 {
                let short = node.short();
                findings.unchecked.push(format!(
                    "{missing} partitions that node {short} should hold are not there under this layout"
                ));
            }
            for address in differing {
                explain(inner, node, address.partition, findings).await;
            }
        }
    }
}

/// The partitions whose digests stay different, and how many are not kept at the other node.
async fn differing(
    inner: &Arc<Inner>,
    node: NodeId,
    replicas: Vec<Address>,
) -> Result<(Vec<Address>, u64), Error> {
    let (mut left, mut missing) = (replicas, 0);
    for pause in std::iter::once(Duration::ZERO).chain(PAUSES) {
        tokio::time::sleep(pause).await;
        let theirs = ask_digests(inner, node, left.clone()).await?;
        let mine = digests(inner, &left).await?;
        missing += theirs.iter().filter(|digest| digest.is_none()).count() as u64;
        let pairs = left.into_iter().zip(mine.into_iter().zip(theirs));
        let differ =
            pairs.filter(|(_, (mine, theirs))| theirs.is_some_and(|theirs| theirs != *mine));
        left = differ.map(|(address, _)| address).collect();
        if left.is_empty() {
            break;
        }
        if pause == EXCHANGE {
            inner.exchange(&node).await;
        }
    }
    Ok((left, missing))
}

async fn ask_digests(
    inner: &Arc<Inner>,
    node: NodeId,
    replicas: Vec<Address>,
) -> Result<Vec<Option<Digest>>, Error> {
    let alone = || Error::Unavailable("this node is alone".into());
    let peers = inner.peers.as_ref().ok_or_else(alone)?;
    let wanted = replicas.len();
    let call = DigestCall { replicas };
    let DigestReply(digests) = peers
        .call(&node, method::DIGEST, Class::Background, &call)
        .await?;
    match digests.len() == wanted {
        true => Ok(digests),
        false => Err(Error::Unavailable("it answers something else".into())),
    }
}

/// Answers another node: the digests of the replicas that are here.
pub(super) async fn serve(inner: &Inner, call: DigestCall) -> Result<DigestReply, Error> {
    if call.replicas.len() > MAX_DIGESTS {
        return Err(Error::Unavailable("too many digests at once".into()));
    }
    let epoch = inner.epochs.number();
    let here = call.replicas.into_iter().map(|address| {
        // Which epoch it asks in does not matter here, only which replica is meant.
        let address = Address { epoch, ..address };
        (inner.epochs.check(&address) == Check::Pass).then_some(address.partition)
    });
    let here: Vec<Option<PartitionId>> = here.collect();
    let read = move |rows: &RowReader<'_>| {
        let each = here.into_iter();
        each.map(|partition| partition.map(|one| digest(rows, one)).transpose())
            .collect()
    };
    Ok(DigestReply(inner.store().read(read).await?))
}

/// The digests of this node's own replicas.
async fn digests(inner: &Inner, replicas: &[Address]) -> Result<Vec<Digest>, Error> {
    let partitions: Vec<_> = replicas.iter().map(|address| address.partition).collect();
    let read = move |rows: &RowReader<'_>| {
        let each = partitions.into_iter();
        each.map(|partition| digest(rows, partition)).collect()
    };
    Ok(inner.store().read(read).await?)
}

fn digest(rows: &RowReader<'_>, partition: PartitionId) -> Result<Digest, archipel_storage::Error> {
    let mut total = (0, Fingerprint::default());
    for (_, window) in rows.windows(partition, Granularity::Month, 0, usize::MAX)? {
        total.0 += window.rows;
        total.1.toggle(window.fingerprint);
    }
    Ok(Digest {
        rows: total.0,
        fingerprint: total.1.0,
    })
}

/// Tells how a partition differs between this node and another, if it still does.
async fn explain(
    inner: &Arc<Inner>,
    node: NodeId,
    partition: PartitionId,
    findings: &mut Findings,
) {
    let differences = match lasting_differences(inner, node, partition).await {
        Ok(differences) => differences,
        Err(error) => {
            let short = node.short();
            let what = format!("partition {partition} differs from node {short}: {error}");
            return findings.unchecked.push(what);
        }
    };
    // A tombstone that only one of them has yet, or still has, hides nothing.
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
        inner.epochs.me().node.short(),
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
    inner: &Arc<Inner>,
    node: NodeId,
    partition: PartitionId,
) -> Result<Differences, Error> {
    let mut first = differences(inner, node, partition).await?;
    if !first.is_empty() {
        tokio::time::sleep(SETTLE).await;
        let second = differences(inner, node, partition).await?;
        first.retain(|key, held| second.get(key) == Some(held));
    }
    Ok(first)
}

async fn differences(
    inner: &Arc<Inner>,
    node: NodeId,
    partition: PartitionId,
) -> Result<Differences, Error> {
    let me = inner.epochs.me().node;
    let mine = rows_at(inner, me, partition).await?;
    let mut theirs = rows_at(inner, node, partition).await?;
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

/// All written rows of a partition that a node holds.
async fn rows_at(
    inner: &Arc<Inner>,
    node: NodeId,
    partition: PartitionId,
) -> Result<BTreeMap<Bytes, Held>, Error> {
    let group = inner.group(partition)?;
    let gone = || Error::Unavailable("the layout changed meanwhile".into());
    let place = group.members.iter().position(|m| m.node.node == node);
    let place = place.ok_or_else(gone)?;
    let mut query = ListQuery::new(partition, Bytes::new());
    (query.tombstones, query.limit) = (true, PAGE);
    let mut rows = BTreeMap::new();
    loop {
        let page = ask(inner, &group, place, query.clone()).await?;
        let page = Arc::unwrap_or_clone(page.ok_or_else(gone)?).listing;
        rows.extend(page.entries.into_iter().filter_map(|entry| match entry {
            ListEntry::Row { key, head } if head.is_written() => {
                Some((key, (head.stamp, head.is_live())))
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
