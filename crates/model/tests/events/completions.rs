//! Events of completions of uploads.

use archipel_model::{Part, PartMeta, Upload, UploadMeta};
use bytes::Bytes;

use super::nodes::Nodes;
use super::*;

impl Nodes {
    /// Begins an upload of one part.
    async fn upload(&self) -> (Upload, Vec<Part>) {
        let model = &self.models[0];
        let upload = model.create_upload(&self.bucket, "key", None, UploadMeta::default());
        let upload = upload.await.unwrap();
        let mut writer = model.begin_part(&self.bucket, &upload, 1).unwrap();
        writer.write(Bytes::from(vec![1; 5 << 20])).await.unwrap();
        let part = writer.finish(PartMeta::default()).await.unwrap();
        // All replicas have everything.
        tokio::time::sleep(Duration::from_secs(5)).await;
        (upload, vec![part])
    }
}

/// A completion reaches the replica of its node alone, and the client gets no answer. A reader brings it to
/// effect, and the node is lost with the only copy of the event. The repeated completion is acknowledged,
/// so there must be an event.
#[tokio::test(start_paused = true)]
async fn completion_that_its_repeat_acknowledges_is_told() {
    let mut seen = 0;
    let kinds = [Versioning::Never, Versioning::Enabled];
    for (versioning, moment) in kinds.into_iter().flat_map(|v| (0..8).map(move |m| (v, m))) {
        let nodes = nodes(versioning, target(1000, false)).await;
        let (upload, parts) = nodes.upload().await;
        let (model, bucket) = (nodes.models[0].clone(), nodes.bucket.clone());
        let id = upload.id;
        let completion = tokio::spawn(async move {
            let always = Condition::Always;
            let done = model.complete_upload(&bucket, &upload, &parts, meta("multi"), always);
            done.await
        });
        tokio::time::sleep(LATENCY / 2 * moment + LATENCY / 4).await;
        nodes.world.isolate(0);
        completion.abort();
        nodes.workers[0].abort();
        let (other, bucket) = (&nodes.models[1], &nodes.bucket);
        let is_elsewhere = other.head_object(bucket, "key").await.is_ok();
        // All that the node began to send has failed by then.
        tokio::time::sleep(Duration::from_secs(60)).await;
        nodes.world.network.end_all_cuts();
        let found = other.head_object(bucket, "key").await;
        nodes.world.isolate(0);
        if is_elsewhere || found.is_err() {
            continue;
        }
        seen += 1;
        assert_eq!(nodes.got(), []);
        let by = other.completed_by(bucket, "key", &id, &|_| Ok(())).await;
        assert_eq!(by.unwrap().unwrap().etag, "multi");
        nodes.settle().await;
        let told = [pair("s3:ObjectCreated:CompleteMultipartUpload", "multi")];
        assert_eq!(nodes.got(), told, "{versioning:?}, moment {moment}");
        let head = other.head_object(bucket, "key").await;
        assert_eq!(head, found, "the object is the same");
    }
    assert!(seen >= 2, "{seen} completions were at one replica alone");
}

/// The repeat of a completion that was told brings no second event, and one with other parts none.
#[tokio::test(start_paused = true)]
async fn repeated_completion_is_told_once() {
    let nodes = nodes(Versioning::Never, target(1000, false)).await;
    let (upload, parts) = nodes.upload().await;
    let (model, bucket) = (&nodes.models[0], &nodes.bucket);
    let always = Condition::Always;
    let done = model.complete_upload(bucket, &upload, &parts, meta("multi"), always);
    done.await.unwrap();
    for model in &nodes.models {
        let other = model.completed_by(bucket, "key", &upload.id, &|_| Err(Error::NoSuchUpload));
        assert_eq!(other.await, Ok(None));
        let by = model
            .completed_by(bucket, "key", &upload.id, &|_| Ok(()))
            .await
            .unwrap();
        assert_eq!(by.unwrap().etag, "multi");
        nodes.settle().await;
    }
    assert_eq!(nodes.receiver.got.lock().len(), 1);
}
