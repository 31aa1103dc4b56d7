//! Completions and aborts that race with one another and with other writes of the object.

mod versioned;

use std::sync::Arc;
use std::time::Duration;

use archipel_cluster::World;
use archipel_model::{
    Bucket, Condition, Error, HOOKS, Model, ObjectHead, ObjectMeta, Part, PartMeta, Predicate,
    Upload, UploadMeta,
};
use bytes::Bytes;

const LATENCY: Duration = Duration::from_millis(50);

struct Nodes {
    pub world: World,
    models: Vec<Model>,
    bucket: Arc<Bucket>,
    upload: Upload,
    parts: Vec<Part>,
}

/// Returns three nodes with an upload of one part.
async fn nodes() -> Nodes {
    let world = World::new(3, 3, LATENCY, 1, HOOKS).await.unwrap();
    let mut models = Vec::new();
    for node in &world.nodes {
        models.push(Model::open(node.clone()).await.unwrap());
    }
    let bucket = models[0].create_bucket("bucket", None).await.unwrap();
    let upload = models[0].create_upload(&bucket, "key", None, UploadMeta::default());
    let upload = upload.await.unwrap();
    let mut writer = models[0].begin_part(&bucket, &upload, 1).unwrap();
    writer.write(Bytes::from(vec![1; 5 << 20])).await.unwrap();
    let part = writer.finish(PartMeta::default()).await.unwrap();
    // All replicas have everything.
    tokio::time::sleep(Duration::from_secs(5)).await;
    Nodes {
        world,
        models,
        bucket,
        upload,
        parts: vec![part],
    }
}

fn meta(etag: &str) -> ObjectMeta {
    ObjectMeta {
        etag: etag.into(),
        ..ObjectMeta::default()
    }
}

/// If-None-Match: *.
fn if_none() -> Condition {
    let test: Predicate = Arc::new(|current: Option<&ObjectHead>| match current {
        None => Ok(()),
        Some(_) => Err(Error::PreconditionFailed),
    });
    Condition::Check(test)
}

impl Nodes {
    /// Completes the upload through a node, in the background.
    fn completing(
        &self,
        node: usize,
        condition: Condition,
    ) -> tokio::task::JoinHandle<Result<ObjectHead, Error>> {
        let (model, bucket) = (self.models[node].clone(), self.bucket.clone());
        let (upload, parts) = (self.upload.clone(), self.parts.clone());
        tokio::spawn(async move {
            let done = model.complete_upload(&bucket, &upload, &parts, meta("multi"), condition);
            done.await
        })
    }

    async fn complete(&self, node: usize, condition: Condition) -> Result<ObjectHead, Error> {
        self.completing(node, condition).await.unwrap()
    }

    async fn abort(&self, node: usize) -> Result<(), Error> {
        let abort = self.models[node].abort_upload(&self.bucket, "key", &self.upload.id);
        abort.await
    }

    async fn put(&self, node: usize, etag: &str) -> Result<ObjectHead, Error> {
        let mut writer = self.models[node].begin_object(&self.bucket, "key")?;
        writer.write(Bytes::from_static(b"put")).await?;
        writer.finish(meta(etag), Condition::Always).await
    }

    async fn etag(&self, node: usize) -> Result<String, Error> {
        let head = self.models[node].head_object(&self.bucket, "key").await;
        head.map(|head| head.etag)
    }

    /// Returns the number of parts of the upload, or an error if it is not in progress.
    async fn listed(&self, node: usize) -> Result<usize, Error> {
        let model = &self.models[node];
        let upload = model.upload(&self.bucket, "key", &self.upload.id).await?;
        let (parts, _) = model.list_parts(&self.bucket, &upload, 0, 10).await?;
        Ok(parts.len())
    }

    async fn run_gc(&self) {
        for _ in 0..4 {
            for model in &self.models {
                model.run_all_gc_tasks().await.unwrap();
            }
        }
    }

    /// Lets a completion through the first node reach that node's replica only.
    async fn completed_by_a_minority(
        &self,
        condition: Condition,
    ) -> tokio::task::JoinHandle<Result<ObjectHead, Error>> {
        let completion = self.completing(0, condition);
        // Its first round takes a round trip. Then its write goes out.
        tokio::time::sleep(2 * LATENCY + LATENCY / 2).await;
        self.world.isolate(0);
        completion
    }
}

/// One replica accepted the completion, and a PUT was chosen instead. The mark of the completion
/// ended the upload, and GC dropped the parts, although the client was told that nothing happened.
#[tokio::test(start_paused = true)]
async fn a_completion_whose_condition_fails_leaves_the_upload_as_it_was() {
    let nodes = nodes().await;
    let completion = nodes.completed_by_a_minority(if_none()).await;
    nodes.put(1, "put").await.unwrap();
    nodes.world.network.end_all_cuts();
    assert_eq!(completion.await.unwrap(), Err(Error::PreconditionFailed));
    nodes.run_gc().await;
    for node in 0..3 {
        assert_eq!(nodes.etag(node).await.unwrap(), "put");
        assert_eq!(nodes.listed(node).await, Ok(1), "node {node}");
    }
    nodes.complete(2, Condition::Always).await.unwrap();
    assert_eq!(nodes.etag(1).await.unwrap(), "multi");
    nodes.run_gc().await;
    let reader = nodes.models[0].open_object(&nodes.bucket, "key").await;
    let mut stream = reader.unwrap().stream(0..u64::MAX);
    let mut length = 0;
    while let Some(piece) = stream.next().await {
        length += piece.unwrap().len();
    }
    assert_eq!(length, 5 << 20);
}

/// The coordinator is away, and its client has no answer. The others can still see that the
/// completion took no effect.
#[tokio::test(start_paused = true)]
async fn an_upload_is_in_progress_once_its_completion_can_no_longer_take_effect() {
    let nodes = nodes().await;
    let completion = nodes.completed_by_a_minority(Condition::Always).await;
    completion.abort();
    nodes.put(1, "put").await.unwrap();
    nodes.world.network.end_all_cuts();
    tokio::time::sleep(Duration::from_secs(5)).await;
    nodes.run_gc().await;
    assert_eq!(nodes.listed(1).await, Ok(1));
    nodes.complete(2, Condition::Always).await.unwrap();
    assert_eq!(nodes.listed(1).await, Err(Error::NoSuchUpload));
}

/// The client got no answer to its completion and tries again through another node.
#[tokio::test(start_paused = true)]
async fn completion_that_a_minority_holds_takes_effect_when_a_reader_meets_it() {
    let nodes = nodes().await;
    let completion = nodes.completed_by_a_minority(if_none()).await;
    completion.abort();
    nodes.world.network.end_all_cuts();
    let again = nodes.complete(1, if_none()).await;
    assert_eq!(again, Err(Error::NoSuchUpload), "it is completed already");
    let by = nodes.models[1].completed_by(&nodes.bucket, "key", &nodes.upload.id, &|_| Ok(()));
    assert_eq!(
        by.await.unwrap().map(|head| head.etag),
        Some("multi".into())
    );
    assert_eq!(nodes.abort(2).await, Err(Error::NoSuchUpload));
    nodes.run_gc().await;
    assert_eq!(nodes.etag(2).await.unwrap(), "multi");
}

/// A minority holds a completion without an answer. An abort that was acknowledged is final.
#[tokio::test(start_paused = true)]
async fn no_completion_takes_effect_after_an_acknowledged_abort() {
    let nodes = nodes().await;
    let completion = nodes.completed_by_a_minority(Condition::Always).await;
    completion.abort();
    nodes.abort(1).await.unwrap();
    nodes.world.network.end_all_cuts();
    tokio::time::sleep(Duration::from_secs(5)).await;
    nodes.run_gc().await;
    for node in 0..3 {
        assert_eq!(nodes.etag(node).await, Err(Error::NoSuchKey), "node {node}");
        assert_eq!(nodes.listed(node).await, Err(Error::NoSuchUpload));
        let late = nodes.complete(node, Condition::Always).await;
        assert_eq!(late, Err(Error::NoSuchUpload));
    }
}

/// One replica accepted the deletion of the bucket, and a change of its settings was chosen instead. GC of that
/// replica aborted the uploads of the bucket all the same.
#[tokio::test(start_paused = true)]
async fn uploads_stay_if_the_deletion_of_their_bucket_takes_no_effect() {
    let mut queued = 0;
    for moment in 0..44 {
        let nodes = nodes().await;
        let (model, bucket) = (nodes.models[0].clone(), nodes.bucket.clone());
        let deletion = tokio::spawn(async move { model.delete_bucket(&bucket).await });
        tokio::time::sleep(LATENCY / 4 + LATENCY / 2 * moment).await;
        nodes.world.isolate(0);
        let changed = nodes.models[1].set_cors(&nodes.bucket, Vec::new()).await;
        // It fails, unless it ended before.
        let _: Result<(), Error> = deletion.await.unwrap();
        queued += nodes.models[0].gc_tasks().await.unwrap();
        nodes.world.network.end_all_cuts();
        if changed.as_ref().err() == Some(&Error::NoSuchBucket) {
            continue;
        }
        changed.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        // The fencing token of the deletion may be taken over.
        for node in 0..3 {
            nodes.world.set_clock_ahead(node, Duration::from_secs(60));
        }
        nodes.run_gc().await;
        for node in 0..3 {
            assert_eq!(nodes.listed(node).await, Ok(1), "{moment}, node {node}");
        }
    }
    assert_ne!(
        queued, 0,
        "no deletion was cut off after a replica had accepted it"
    );
}

/// A client that went away stopped the deletion half-way, and closed fences held up all writers.
#[tokio::test(start_paused = true)]
async fn deletion_of_a_bucket_that_has_begun_goes_on_without_its_caller() {
    let mut gone = 0;
    for moment in 0..20 {
        let nodes = nodes().await;
        let (model, bucket) = (nodes.models[0].clone(), nodes.bucket.clone());
        let deletion = tokio::spawn(async move { model.delete_bucket(&bucket).await });
        tokio::time::sleep(LATENCY / 4 + LATENCY / 2 * moment).await;
        deletion.abort();
        tokio::time::sleep(Duration::from_secs(5)).await;
        match nodes.models[1].find_bucket("bucket").await.unwrap() {
            None => gone += 1,
            // It had not begun: a write takes one round, as ever.
            Some(_) => {
                let put = tokio::time::timeout(4 * LATENCY, nodes.put(1, "put")).await;
                assert!(matches!(put, Ok(Ok(_))), "moment {moment}: {put:?}");
            }
        }
    }
    assert!(gone >= 15, "{gone} deletions went on");
}

#[tokio::test(start_paused = true)]
async fn of_completions_and_aborts_at_once_one_takes_effect() {
    for round in 0..8 {
        let nodes = nodes().await;
        let completions = [0, 1].map(|node| nodes.completing(node, Condition::Always));
        tokio::time::sleep(LATENCY / 4 * round).await;
        let aborted = nodes.abort(2).await;
        let mut completed = 0;
        for completion in completions {
            completed += u32::from(completion.await.unwrap().is_ok());
        }
        let done = completed + u32::from(aborted.is_ok());
        assert!(
            done <= 1,
            "round {round}: {aborted:?}, {completed} completions"
        );
        // An abort that others met has no answer, and may take effect.
        let unknown = matches!(aborted, Err(Error::Unavailable(_)));
        assert!(done == 1 || unknown, "round {round}: {aborted:?}");
        for node in 0..3 {
            let exists = nodes.etag(node).await.is_ok();
            assert_eq!(exists, completed == 1, "round {round}: {aborted:?}");
            assert_eq!(nodes.listed(node).await, Err(Error::NoSuchUpload));
        }
    }
}

/// The clock of the first node is ahead. An attempt that it took used to be listed although another node had
/// acknowledged a newer one.
#[tokio::test(start_paused = true)]
async fn the_attempt_at_a_part_that_was_acknowledged_last_is_listed() {
    let nodes = nodes().await;
    let (bucket, upload) = (&nodes.bucket, &nodes.upload);
    nodes.world.set_clock_ahead(0, Duration::from_secs(4));
    for node in [0, 1, 0, 2, 1] {
        let mut writer = nodes.models[node].begin_part(bucket, upload, 1).unwrap();
        writer.write(Bytes::from_static(b"again")).await.unwrap();
        let part = writer.finish(PartMeta::default()).await.unwrap();
        for model in &nodes.models {
            let listed = model.list_parts(bucket, upload, 0, 10).await;
            let (parts, _) = listed.unwrap();
            let attempts: Vec<_> = parts.iter().map(|part| part.attempt).collect();
            assert_eq!(attempts, [part.attempt], "sent through node {node}");
        }
    }
}

/// The node that began the upload has a clock that is four seconds ahead. A completion through a
/// node with the right time used to leave the upload in progress.
#[tokio::test(start_paused = true)]
async fn an_upload_that_a_clock_ahead_began_is_completed_once() {
    use archipel_base::{Stamp, Writer};
    use archipel_storage::RowTxn;
    use archipel_storage::engine::Durability;

    let nodes = nodes().await;
    let ahead = Stamp::new(nodes.world.nodes[0].now_ms() + 4000, 0, Writer(9));
    for node in &nodes.world.nodes {
        let restamp = move |txn: &mut RowTxn<'_>| {
            for partition in (0..1024).map(archipel_base::PartitionId) {
                let mut keys = Vec::new();
                txn.reader().scan_metadata(
                    partition,
                    b"u",
                    std::ops::Bound::Unbounded,
                    &mut |key, _| {
                        keys.push(Bytes::copy_from_slice(key));
                        Ok(archipel_storage::engine::Flow::Continue)
                    },
                )?;
                for key in keys {
                    let key = archipel_storage::RowKey { partition, key };
                    if let Some(row) = txn.row(&key)? {
                        let row = archipel_storage::Row {
                            stamp: ahead,
                            promised: ahead,
                            ..row
                        };
                        txn.set(&key, &row)?;
                    }
                }
            }
            Ok(())
        };
        let done = node.store().transact(Durability::Fsync, restamp).await;
        done.unwrap();
    }
    nodes.complete(1, Condition::Always).await.unwrap();
    nodes.put(2, "put").await.unwrap();
    let again = nodes.complete(2, Condition::Always).await;
    assert_eq!(again, Err(Error::NoSuchUpload));
    assert_eq!(nodes.etag(0).await.unwrap(), "put");
}
