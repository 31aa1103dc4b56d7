//! Control data under races.

use archipel_cluster::Cluster;

use super::*;

/// Another request has written the row and not got to the cache yet.
#[tokio::test]
async fn who_hears_that_a_bucket_exists_can_use_it() {
    let cluster = Cluster::in_memory(1, crate::HOOKS).await.unwrap();
    let model = Model::open(cluster).await.unwrap();
    let bucket = model.create_bucket("other", None).await.unwrap();
    let raced = Bucket {
        name: "raced".into(),
        id: model.random_id(),
        ..(*bucket).clone()
    };
    let put = model.put_if_absent(
        rowkeys::bucket("raced"),
        row(codec::encode(&raced)),
        Error::BucketExists,
    );
    put.await.unwrap();
    assert!(model.bucket("raced").is_none(), "not in the cache");
    let second = model.create_bucket("raced", None).await;
    assert_eq!(second.err(), Some(Error::BucketExists));
    let found = model.bucket("raced").unwrap();
    assert_eq!(found.id, raced.id);
    // Its gates do not stand yet: a commit opens them, and who created it does not mind.
    let writer = model.begin_object(&found, "key").unwrap();
    let written = writer.finish(crate::ObjectMeta::default(), crate::Condition::Always);
    written.await.unwrap();
}
