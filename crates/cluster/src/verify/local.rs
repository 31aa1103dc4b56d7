//! One node's part of a verification: its rows, its blocks, its replicas beside those of others.

use std::sync::Arc;

use archipel_base::{BlockHash, PartitionId};
use archipel_storage::RowTxn;
use archipel_storage::engine::Durability;
use archipel_storage::rows::Report;
use archipel_storage::store::Transact;

use super::compare::{compare, counterparts};
use super::message::{Findings, Step, VerifyCall, VerifyReply};
use super::{Run, Verify};
use crate::cluster::Cluster;
use crate::error::Error;
use crate::inner::Inner;
use crate::layout::{Epoch, PARTITIONS};

/// What one step of a deep verification reads, about.
const STEP_BYTES: u64 = 16 << 20;

impl Inner {
    /// Begins this node's part, unless it is begun; tells how far it is.
    pub(crate) fn serve_verify(self: &Arc<Inner>, call: VerifyCall) -> VerifyReply {
        let mut run = self.verify.run();
        match &*run {
            Some(run) if run.id == call.run => return run.reply.clone(),
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
        });
        let cluster = Cluster(self.clone());
        tokio::spawn(async move {
            let findings = verify_here(&cluster, call.deep).await;
            if let Some(run) = cluster.0.verify.run().as_mut() {
                run.reply.findings = Some(findings);
            }
        });
        VerifyReply::default()
    }
}

pub(super) async fn verify_here(cluster: &Cluster, deep: bool) -> Findings {
    let mut findings = Findings::default();
    let verify = &cluster.0.verify;
    let Some(epoch) = cluster.epoch() else {
        findings.unchecked.push("this node is in no layout".into());
        return findings;
    };
    if cluster.0.is_put_aside(&epoch) {
        let what = "this store was put back to an older state, and no layout names it yet: nobody is given what it holds";
        findings.unchecked.push(what.into());
        return findings;
    }
    if let Err(error) = elsewhere(&cluster.0, &epoch, &mut findings).await {
        let what = "what is left of partitions that went elsewhere";
        findings.unchecked.push(format!("{what}: {error}"));
    }
    if let Err(error) = rows(cluster, &mut findings).await {
        findings.unchecked.push(format!("the rows: {error}"));
    }
    if deep && let Err(error) = content(cluster, &mut findings).await {
        findings.unchecked.push(format!("the content: {error}"));
    }
    let counterparts = counterparts(&epoch, cluster.me());
    let all = counterparts.len() as u64;
    for (done, (node, replicas)) in counterparts.into_iter().enumerate() {
        verify.at("comparing replicas with other nodes", done as u64, all);
        compare(&cluster.0, node, replicas, &mut findings).await;
    }
    findings
}

/// Everything that is derived from rows, and that every block is there that they refer to.
async fn rows(cluster: &Cluster, findings: &mut Findings) -> Result<(), Error> {
    let inner = cluster.0.clone();
    let all = u64::from(PARTITIONS) + 1;
    let verify = move |rows: &archipel_storage::RowReader<'_>| {
        rows.verify_with(&mut |partition: PartitionId| {
            let done = u64::from(partition.0).min(all - 2) + 1;
            inner.verify.at("partitions", done, all);
        })
    };
    let report: Report = cluster.store().read(verify).await?;
    findings.rows = report.rows;
    findings.blocks = report.blocks;
    let more = report.problems - report.told.len() as u64;
    report
        .told
        .into_iter()
        .for_each(|what| findings.problem(what));
    findings.problems += more;
    cluster.note_damaged(report.lacking);
    for row in report.damaged {
        cluster.0.mend_row(&row).await;
    }
    cluster.release_surplus(report.surplus).await
}

/// That nothing is left here of partitions that the layout gives to others: it is forgotten now, if it was not yet.
async fn elsewhere(
    inner: &Arc<Inner>,
    epoch: &Epoch,
    findings: &mut Findings,
) -> Result<(), Error> {
    inner.clean(epoch.number()).await?;
    for partition in inner.strays(epoch).await? {
        findings.problem(format!(
            "partition {partition} is kept by others, but something of it is here"
        ));
    }
    Ok(())
}

/// Every block, read and compared with its name.
async fn content(cluster: &Cluster, findings: &mut Findings) -> Result<(), Error> {
    let blocks = cluster.store().blocks().clone();
    let mut after = None;
    loop {
        let verify = &cluster.0.verify;
        verify.at(
            "blocks",
            findings.verified,
            findings.blocks.max(findings.verified),
        );
        let step = blocks.scrub_step(after, STEP_BYTES).await?;
        findings.verified += step.blocks;
        for hash in &step.damaged {
            findings.problem(format!("block {hash} is damaged; it is being mended"));
        }
        cluster.note_damaged(step.damaged);
        match step.next {
            None => return Ok(()),
            next => after = next,
        }
    }
}

impl Cluster {
    /// Corrects the references of blocks that are counted too high: nothing would ever free them.
    async fn release_surplus(&self, blocks: Vec<BlockHash>) -> Result<(), Error> {
        if blocks.is_empty() {
            return Ok(());
        }
        let release = move |txn: &mut RowTxn<'_>| txn.release_surplus(&blocks);
        let how = Transact::new(Durability::Fsync).shrinking();
        let released = self.store().transact(how, release).await?;
        tracing::warn!(released, "references to blocks that no row makes are gone");
        Ok(())
    }
}

impl Verify {
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
