use archipel_cluster::World;

use super::*;

fn tags(pairs: &[(&str, &str)]) -> crate::Tags {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

async fn assert_only_tags_changed(model: &Model, bucket: &Bucket, key: &str) {
    let before = model.head_object(bucket, key).await.unwrap();
    let content = get(model, bucket, key).await.unwrap();
    for tags in [tags(&[("a", "1"), ("b", "")]), tags(&[])] {
        let set = model.set_object_tags(bucket, key, None, tags.clone(), &|_| Ok(()));
        set.await.unwrap();
        run_gc(model).await;
        let after = model.head_object(bucket, key).await.unwrap();
        let expected = ObjectHead {
            tags,
            ..before.clone()
        };
        assert_eq!(after, expected);
        assert_eq!(get(model, bucket, key).await.unwrap(), content);
        assert_consistent(model).await;
    }
}

#[tokio::test]
async fn changed_tags_leave_content_of_every_form_alone() {
    let (model, bucket) = model().await;
    for size in [0, 10, 3 << 20, EXTENT_BYTES as usize + (1 << 20)] {
        put(&model, &bucket, "key", noise(size as u64, size)).await;
        assert_only_tags_changed(&model, &bucket, "key").await;
    }
    let begun = model.create_upload(&bucket, "parts", None, UploadMeta::default());
    let upload = begun.await.unwrap();
    let one = part(&model, &bucket, &upload, 1, noise(1, 5 << 20)).await;
    let two = part(&model, &bucket, &upload, 2, noise(2, 10)).await;
    let parts = [one, two];
    let done = model.complete_upload(&bucket, &upload, &parts, meta("m"), Condition::Always);
    done.await.unwrap();
    assert_only_tags_changed(&model, &bucket, "parts").await;
    let usage = model.bucket_usage(&bucket).await.unwrap();
    assert_eq!(usage.objects, 2);
    // A replacement still drops what the tagged object referred to.
    put(&model, &bucket, "parts", noise(3, 10)).await;
    assert_eq!(run_gc(&model).await, 2);
}

#[tokio::test]
async fn an_object_that_is_missing_gets_no_tags() {
    let (model, bucket) = model().await;
    let set = model.set_object_tags(&bucket, "key", None, tags(&[("a", "1")]), &|_| Ok(()));
    assert_eq!(set.await, Err(Error::NoSuchKey));
    assert_eq!(get(&model, &bucket, "key").await, Err(Error::NoSuchKey));
    put(&model, &bucket, "key", noise(1, 10)).await;
    let deleted = model.delete_object(&bucket, "key", Condition::Always);
    deleted.await.unwrap();
    let set = model.set_object_tags(&bucket, "key", None, tags(&[("a", "1")]), &|_| Ok(()));
    assert_eq!(set.await, Err(Error::NoSuchKey));
    assert_eq!(model.bucket_usage(&bucket).await.unwrap().objects, 0);
}

/// Writes an object. Under contention a node may not know whether the write took effect.
async fn try_put(
    model: &Model,
    bucket: &Arc<Bucket>,
    key: &str,
    content: Bytes,
) -> Result<(), Error> {
    let mut writer = model.begin_object(bucket, key)?;
    writer.write(content).await?;
    match writer.finish(meta("e"), Condition::Always).await {
        Ok(_) => Ok(()),
        Err(error @ Error::Unavailable(_)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

/// Whatever the order, the object is one of the written ones, whole, with tags of its own or those
/// that were set.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tags_that_race_with_writes_bring_no_old_content_back() {
    let (model, bucket) = model().await;
    for round in 0..10 {
        let key = format!("key{round}");
        put(&model, &bucket, &key, noise(1, 2 << 20)).await;
        let (tagger, on, name) = (model.clone(), bucket.clone(), key.clone());
        let tagging = tokio::spawn(async move {
            for n in 0..20 {
                let tags = tags(&[("n", &n.to_string())]);
                match tagger
                    .set_object_tags(&on, &name, None, tags, &|_| Ok(()))
                    .await
                {
                    Ok(_) | Err(Error::Unavailable(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
        for n in 2..6 {
            while try_put(&model, &bucket, &key, noise(n, 2 << 20))
                .await
                .is_err()
            {}
        }
        tagging.await.unwrap();
        assert_eq!(get(&model, &bucket, &key).await, Ok(noise(5, 2 << 20)));
    }
    run_gc(&model).await;
    assert_consistent(&model).await;
}

/// Tags cost two round trips between sites, as a conditional write does.
#[tokio::test(start_paused = true)]
async fn tags_take_two_round_trips() {
    let trip = std::time::Duration::from_millis(100);
    let world = World::new(5, 3, trip / 2, 1, crate::HOOKS).await.unwrap();
    let model = Model::open(world.nodes[0].clone()).await.unwrap();
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    put(&model, &bucket, "key", noise(1, 10)).await;
    let begun = tokio::time::Instant::now();
    let set = model.set_object_tags(&bucket, "key", None, tags(&[("a", "1")]), &|_| Ok(()));
    set.await.unwrap();
    let took = begun.elapsed();
    assert!(took < trip * 5 / 2, "{took:?}");
    let other = Model::open(world.nodes[4].clone()).await.unwrap();
    let head = other.head_object(&bucket, "key").await.unwrap();
    assert_eq!(head.tags, tags(&[("a", "1")]));
}
