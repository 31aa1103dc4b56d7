//! The most buckets that one user may create.

use archipel_access::Ownership;
use archipel_cluster::Cluster;

use crate::bucket::AccessKey;
use crate::{Error, Model, ModelOptions, Tags};

async fn create(model: &Model, name: &str, key: &AccessKey) -> Result<(), Error> {
    let made =
        model.create_bucket_for(name, key, Ownership::BucketOwnerEnforced, None, Tags::new());
    made.await.map(|_| ())
}

#[tokio::test]
async fn a_user_creates_as_many_buckets_as_allowed_and_no_more() {
    let cluster = Cluster::in_memory(1, crate::HOOKS).await.unwrap();
    let options = ModelOptions {
        buckets_per_user: 2,
        ..ModelOptions::default()
    };
    let model = Model::open_with(cluster, options).await.unwrap();
    let one = model.create_owner_key("one").await.unwrap();
    let other = model.create_owner_key("other").await.unwrap();
    for name in ["first", "second"] {
        create(&model, name, &one).await.unwrap();
    }
    let third = create(&model, "third", &one).await;
    assert_eq!(third, Err(Error::TooManyBuckets(2)));
    assert!(model.find_bucket("third").await.unwrap().is_none());
    // A bucket that exists is another refusal.
    let again = create(&model, "first", &one).await;
    assert_eq!(again, Err(Error::BucketExists));
    // Others, and operators, are not concerned.
    create(&model, "third", &other).await.unwrap();
    model.create_bucket("fourth", Some(&one.id)).await.unwrap();
    // A deleted one makes room.
    for name in ["first", "fourth"] {
        let bucket = model.bucket(name).unwrap().unwrap();
        model.delete_bucket(&bucket).await.unwrap();
    }
    create(&model, "fifth", &one).await.unwrap();
}
