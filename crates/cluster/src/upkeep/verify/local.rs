//! One node's part of a verification: its rows, its blocks, its replicas compared with those of
//! other nodes.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use archipel_base::{BlockHash, PartitionId};
use archipel_storage::engine::Durability;
use archipel_storage::rows::{Report, Window};
use archipel_storage::store::Transact;
use archipel_storage::{RowReader, RowTxn};
use futures_util::FutureExt;

use super::compare::{compare, counterparts};
use super::message::{Findings, Step, VerifyCall, VerifyReply};
use super::versions::versions;
use super::{Run, Verify};
use crate::error::Error;
use crate::layout::{Epoch, PARTITIONS, StoreName};
use crate::upkeep::Upkeep;
use crate::upkeep::anti_entropy::digests::{of_partition, shortened};

/// The note for a verification that was stopped: the rest was not checked.
const STOPPED: &str = "the rest: the verification was stopped";
/// The note for a part that panicked: nothing is known of it.
const BROKE_OFF: &str =
    "everything: the verification broke off here; the log of this node says why";

/// About how many bytes one step of a deep verification reads.
const STEP_BYTES: u64 = 16 << 20;

impl Upkeep {
    /// Begins this node's part, unless it has begun. Returns its progress.
    pub(crate) fn serve_verify(self: &Arc<Upkeep>, call: VerifyCall) -> VerifyReply {
        let mut run = self.verify.run();
        match &mut *run {
            Some(run) if run.id == call.run => {
                run.is_stopped |= call.stop;
                return run.reply.clone();
            }
            _ if call.stop => return VerifyReply::ended_early(),
            Some(run) if run.reply.findings.is_none() => {
                return VerifyReply {
                    busy: true,
                    ..VerifyReply::default()
                };
            }
            _ => {}
        }
        *run = Some(Run {
            id: call.run,
            reply: VerifyReply::default(),
            is_stopped: false,
        });
        let upkeep = self.clone();
        tokio::spawn(async move { end_with(&upkeep, verify_here(&upkeep, call.deep)).await });
        VerifyReply::default()
    }
}

/// Awaits this node's part, and keeps its findings. A part that panics has ended, too: no other one can begin
/// before, and those who asked for it would wait for ever.
pub(super) async fn end_with(upkeep: &Upkeep, part: impl Future<Output = Findings>) {
    // The panic hook logs the panic itself.
    let ended = AssertUnwindSafe(part).catch_unwind().await;
    let findings = ended.unwrap_or_else(|_| Findings {
        unchecked: vec![BROKE_OFF.into()],
        ..Findings::default()
    });
    if let Some(run) = upkeep.verify.run().as_mut() {
        run.reply.findings = Some(findings);
    }
}

pub(super) async fn verify_here(upkeep: &Arc<Upkeep>, deep: bool) -> Findings {
    let mut findings = Findings::default();
    let verify = &upkeep.verify;
    let Some(epoch) = upkeep.epoch() else {
        findings.unchecked.push("this node is in no layout".into());
        return findings;
    };
    let me = upkeep.me();
    if upkeep.is_quarantined(&epoch, &me) {
        let what = "this store was rolled back and is quarantined: it gives no node its data until a layout \
                    names it";
        findings.unchecked.push(what.into());
        return findings;
    }
    if let Err(error) = elsewhere(upkeep, (&epoch, &me), &mut findings).await {
        let what = "the purge of stale partitions";
        findings.unchecked.push(format!("{what}: {error}"));
    }
    if let Err(error) = rows(upkeep, &mut findings).await {
        findings.unchecked.push(format!("the rows: {error}"));
    }
    verify.at("versions", 0, 0);
    if !verify.is_stopped()
        && let Err(error) = versions(upkeep, &mut findings).await
    {
        findings.unchecked.push(format!("the versions: {error}"));
    }
    if verify.is_stopped() {
        note_stopped(&mut findings);
        return findings;
    }
    if deep && let Err(error) = content(upkeep, &mut findings).await {
        findings.unchecked.push(format!("the content: {error}"));
    }
    let counterparts = counterparts(&epoch, me);
    let all = counterparts.len() as u64;
    for (done, (node, replicas)) in counterparts.into_iter().enumerate() {
        if verify.is_stopped() {
            note_stopped(&mut findings);
            return findings;
        }
        verify.at("comparing replicas with other nodes", done as u64, all);
        compare(upkeep, node, replicas, &mut findings).await;
    }
    findings
}

/// Notes, once, that the rest was not checked.
fn note_stopped(findings: &mut Findings) {
    if !findings.unchecked.iter().any(|what| what == STOPPED) {
        findings.unchecked.push(STOPPED.into());
    }
}

/// Verifies everything that is derived from rows, and the presence of every block that they refer
/// to.
async fn rows(upkeep: &Arc<Upkeep>, findings: &mut Findings) -> Result<(), Error> {
    let this = upkeep.clone();
    let all = u64::from(PARTITIONS) + 1;
    let verify = move |rows: &RowReader<'_>| {
        rows.verify_with(&mut |partition: PartitionId| {
            let done = u64::from(partition.0).min(all - 2) + 1;
            this.verify.at("partitions", done, all);
        })
        .map(|report| (report, digest(rows)))
    };
    let (report, digest): (Report, Result<u64, archipel_storage::Error>) =
        upkeep.store().read(verify).await?;
    match digest {
        Ok(digest) => findings.digest = digest,
        // The report counts all the same.
        Err(error) => {
            let what = format!("the digest of the rows: {error}");
            findings.unchecked.push(what);
        }
    }
    findings.rows = report.rows;
    findings.blocks = report.blocks;
    let more = report.problems - report.told.len() as u64;
    report
        .told
        .into_iter()
        .for_each(|what| findings.problem(what));
    findings.problems += more;
    upkeep.note_damaged(report.lacking);
    for row in report.damaged {
        upkeep.repair_row(&row).await;
    }
    upkeep.release_surplus(report.surplus).await
}

/// Returns the digest of all rows of this store.
fn digest(rows: &RowReader<'_>) -> Result<u64, archipel_storage::Error> {
    let (mut parts, mut from) = (Vec::new(), Some(PartitionId(0)));
    while let Some(first) = from
        && let Some(partition) = rows.next_partition(first)?
    {
        let window = of_partition(rows, partition)?;
        if window != Window::default() {
            parts.extend(partition.0.to_be_bytes());
            parts.extend(shortened(&window).to_be_bytes());
        }
        from = partition.0.checked_add(1).map(PartitionId);
    }
    let hash = BlockHash::of(&parts);
    let first = hash.as_bytes().iter().take(8);
    Ok(first.fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

/// Verifies that this store is purged. It purges now if it has not yet.
async fn elsewhere(
    upkeep: &Arc<Upkeep>,
    (epoch, me): (&Epoch, &StoreName),
    findings: &mut Findings,
) -> Result<(), Error> {
    upkeep.purge_stale(epoch.number()).await?;
    for partition in upkeep.stale_partitions(epoch, me).await? {
        findings.problem(format!(
            "partition {partition} is stale: the layout gives it to other nodes, but this store has \
             rows of it"
        ));
    }
    Ok(())
}

/// Reads every block and compares it with its name. If it is stopped before the end, it notes that:
/// nothing else would on a node without another one to compare with.
pub(super) async fn content(upkeep: &Arc<Upkeep>, findings: &mut Findings) -> Result<(), Error> {
    let blocks = upkeep.store().blocks().clone();
    let mut after = None;
    loop {
        let verify = &upkeep.verify;
        verify.at(
            "blocks",
            findings.verified,
            findings.blocks.max(findings.verified),
        );
        let step = blocks.scrub_step(after, STEP_BYTES).await?;
        findings.verified += step.blocks;
        for hash in &step.damaged {
            findings.problem(format!("block {hash} is damaged; it is being repaired"));
        }
        upkeep.note_damaged(step.damaged);
        match step.next {
            None => return Ok(()),
            Some(_) if verify.is_stopped() => {
                note_stopped(findings);
                return Ok(());
            }
            next => after = next,
        }
    }
}

impl Upkeep {
    /// Corrects references that are counted too high. Otherwise nothing would ever free these
    /// blocks.
    async fn release_surplus(&self, blocks: Vec<BlockHash>) -> Result<(), Error> {
        if blocks.is_empty() {
            return Ok(());
        }
        let release = move |txn: &mut RowTxn<'_>| txn.release_surplus(&blocks);
        let how = Transact::new(Durability::Fsync).shrinking();
        let released = self.store().transact(how, release).await?;
        tracing::warn!(released, "surplus references to blocks were removed");
        Ok(())
    }
}

impl Verify {
    pub(super) fn is_stopped(&self) -> bool {
        self.run().as_ref().is_some_and(|run| run.is_stopped)
    }

    fn at(&self, name: &str, done: u64, all: u64) {
        if let Some(run) = self.run().as_mut() {
            run.reply.step = Step {
                name: name.into(),
                done,
                all,
            };
        }
    }
}
