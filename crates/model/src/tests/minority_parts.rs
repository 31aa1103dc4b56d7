//! A part whose write failed, and that only one replica holds.

use std::time::Duration;

use archipel_cluster::World;

use super::*;

const LATENCY: Duration = Duration::from_millis(2);

/// The listing of parts showed it, and a completion took it. The object was lost with that replica.
#[tokio::test(start_paused = true)]
async fn a_completed_object_does_not_rest_on_one_replica() {
    let world = World::new(3, 3, LATENCY, 1, crate::HOOKS).await.unwrap();
    let mut models = Vec::new();
    for node in &world.nodes {
        models.push(Model::open(node.clone()).await.unwrap());
    }
    let bucket = models[0].create_bucket("bucket", None).await.unwrap();
    let upload = models[0].create_upload(&bucket, "key", None, UploadMeta::default());
    let upload = upload.await.unwrap();

    let content = noise(1, 1000);
    let mut writer = models[0].begin_part(&bucket, &upload, 1).unwrap();
    writer.write(content.clone()).await.unwrap();
    world.isolate(0);
    let failed = writer.finish(PartMeta::default()).await;
    assert!(failed.is_err(), "{failed:?}");
    world.network.end_all_cuts();

    let parts = models[0]
        .sent_parts(&bucket, "key", &upload.id, &|_| true)
        .await;
    let parts = parts.unwrap();
    assert_eq!(parts.len(), 1, "the replica that has it answers");
    let done = models[0].complete_upload(&bucket, &upload, &parts, meta("e"), Condition::Always);
    done.await.unwrap();
    world.kill(0);
    assert_eq!(get(&models[1], &bucket, "key").await, Ok(content));
}
