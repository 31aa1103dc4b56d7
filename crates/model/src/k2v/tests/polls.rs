//! Polls, and rounds between nodes.

use archipel_base::random::{Random, SeededRandom};
use tokio::time::Instant;

use super::*;

/// Rounds between nodes: one for a read, a range, and a batch of either; two for an insert, a
/// deletion and a batch of inserts; one and two for the deletion of a range.
#[tokio::test(start_paused = true)]
async fn rounds_are_as_promised() {
    let nodes = Nodes::new(1).await;
    let Nodes { models, bucket, .. } = &nodes;
    let (model, bucket) = (&models[0], bucket.clone());
    let first = insert("p", "s", None, "v");
    model.insert_item(&bucket, &first).await.unwrap();
    let rounds = |began: Instant| {
        let took = began.elapsed();
        let rounds = (took.as_millis() as f64 / ROUND_TRIP.as_millis() as f64).round();
        (rounds as u32, took)
    };
    let began = Instant::now();
    model
        .insert_item(&bucket, &insert("p", "t", None, "v"))
        .await
        .unwrap();
    assert_eq!(rounds(began).0, 2, "an insert: {:?}", rounds(began));
    let began = Instant::now();
    let seen = read(model, &bucket, "p", "s").await.unwrap();
    assert_eq!(rounds(began).0, 1, "a read: {:?}", rounds(began));
    let began = Instant::now();
    let deletion = delete("p", "s", &seen.token);
    model.insert_item(&bucket, &deletion).await.unwrap();
    assert_eq!(rounds(began).0, 2, "a deletion: {:?}", rounds(began));
    let began = Instant::now();
    let batch = (0..100).map(|n| insert(&format!("p{n}"), "s", None, "v"));
    let frames = || nodes.world.network.frames().values().sum::<u64>();
    let before = frames();
    model.insert_items(&bucket, batch.collect()).await.unwrap();
    assert_eq!(rounds(began).0, 2, "a batch: {:?}", rounds(began));
    // Each request as a message of its own would be 1200 frames.
    let sent = frames() - before;
    assert!(sent < 100, "a batch of 100 took {sent} frames");
    let began = Instant::now();
    let batch = (0..100).map(|n| insert("one", "s", None, &n.to_string()));
    model.insert_items(&bucket, batch.collect()).await.unwrap();
    assert_eq!(rounds(began).0, 2, "into one item: {:?}", rounds(began));
    let range = |n: u32| Range {
        pk: format!("p{n}"),
        ..Range::default()
    };
    for count in [1, 100] {
        let began = Instant::now();
        let ranges: Vec<_> = (0..count).map(range).collect();
        let pages = model.read_ranges(&bucket, &ranges, usize::MAX).await;
        let pages = pages.unwrap();
        assert!(pages.iter().all(|page| page.items.len() == 1));
        assert_eq!(rounds(began).0, 1, "{count} ranges: {:?}", rounds(began));
        let names: Vec<_> = (0..count).map(|n| name(&format!("p{n}"), "s")).collect();
        let began = Instant::now();
        let items = model.read_items(&bucket, &names, 1 << 20).await.unwrap();
        let read = rounds(began);
        assert!(items.iter().all(Option::is_some));
        let all: usize = items.iter().flatten().map(Item::bytes).sum();
        let fitting = model.read_items(&bucket, &names, all).await;
        assert!(fitting.is_ok());
        let refused = model.read_items(&bucket, &names, all - 1).await;
        assert_eq!(refused.err(), Some(Error::AnswerTooLarge));
        assert_eq!(read.0, 1, "{count} items: {read:?}");
    }
    let began = Instant::now();
    assert_eq!(model.delete_range(&bucket, &range(0)).await, Ok(1));
    assert_eq!(rounds(began).0, 3, "a range's end: {:?}", rounds(began));
}

/// A poll at one node ends soon after an insert at another: half a round trip for the news, and one
/// for the read.
#[tokio::test(start_paused = true)]
async fn polls_hear_of_changes_at_other_nodes() {
    let Nodes { models, bucket, .. } = Nodes::new(2).await;
    let first = insert("p", "s", None, "1");
    models[0].insert_item(&bucket, &first).await.unwrap();
    let seen = read(&models[1], &bucket, "p", "s").await.unwrap();
    let poll = {
        let (model, bucket, token) = (models[1].clone(), bucket.clone(), seen.token.clone());
        tokio::spawn(async move {
            let time = Duration::from_secs(300);
            let item = model
                .poll_item(&bucket, &name("p", "s"), &token, time)
                .await;
            (item.unwrap().unwrap(), Instant::now())
        })
    };
    let ranged = {
        let (model, bucket) = (models[2].clone(), bucket.clone());
        tokio::spawn(async move {
            let range = Range {
                pk: "p".into(),
                ..Range::default()
            };
            let time = Duration::from_secs(300);
            let all = model.poll_range(&bucket, &range, None, time).await;
            let all = all.unwrap().unwrap();
            let texts_of = |polled: &Polled| {
                let items = polled.items.iter();
                items
                    .map(|(sk, item)| (sk.clone(), texts(item)))
                    .collect::<Vec<_>>()
            };
            let marker = Some(&all.marker[..]);
            let news = model.poll_range(&bucket, &range, marker, time).await;
            (texts_of(&all), texts_of(&news.unwrap().unwrap()))
        })
    };
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(!poll.is_finished() && !ranged.is_finished());
    // Another item, and the same item in another partition key, wake nobody for long.
    for (pk, sk) in [("q", "s"), ("q", "t")] {
        let other = insert(pk, sk, None, "x");
        models[0].insert_item(&bucket, &other).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(!poll.is_finished() && !ranged.is_finished());
    let second = insert("p", "s", Some(&seen.token), "2");
    models[0].insert_item(&bucket, &second).await.unwrap();
    let acknowledged = Instant::now();
    let (item, woken) = poll.await.unwrap();
    assert_eq!(texts(&item), ["2"]);
    let took = woken.saturating_duration_since(acknowledged);
    assert!(took <= LATENCY + ROUND_TRIP + A_LITTLE, "{took:?}");
    let (all, news) = ranged.await.unwrap();
    let one = |text: &str| vec![("s".to_owned(), vec![text.to_owned()])];
    assert_eq!((all, news), (one("1"), one("2")));
}

#[tokio::test(start_paused = true)]
async fn a_poll_ends_when_its_time_is_over() {
    let Nodes { models, bucket, .. } = Nodes::new(3).await;
    let model = models[0].clone();
    let first = insert("p", "s", None, "1");
    model.insert_item(&bucket, &first).await.unwrap();
    let seen = read(&model, &bucket, "p", "s").await.unwrap();
    let (item, time) = (name("p", "s"), Duration::from_secs(7));
    let began = Instant::now();
    let polled = model.poll_item(&bucket, &item, &seen.token, time).await;
    assert_eq!(polled, Ok(None));
    assert!(began.elapsed() >= time && began.elapsed() < time + ROUND_TRIP);
    let deletion = delete("p", "s", &seen.token);
    model.insert_item(&bucket, &deletion).await.unwrap();
    let polled = model.poll_item(&bucket, &item, &seen.token, time).await;
    assert_eq!(texts(&polled.unwrap().unwrap()), ["-"]);
    let wrong = model.poll_item(&bucket, &item, b"wrong", time).await;
    assert_eq!(wrong, Err(Error::InvalidCausalityToken));
}

/// Polls at all nodes end soon after their bucket was deleted at one.
#[tokio::test(start_paused = true)]
async fn polls_end_with_their_bucket() {
    let Nodes { models, bucket, .. } = Nodes::new(4).await;
    let first = insert("p", "s", None, "1");
    models[0].insert_item(&bucket, &first).await.unwrap();
    let seen = read(&models[0], &bucket, "p", "s").await.unwrap();
    let deletion = delete("p", "s", &seen.token);
    models[0].insert_item(&bucket, &deletion).await.unwrap();
    let mut polls = Vec::new();
    for model in &models {
        let (model, bucket) = (model.clone(), bucket.clone());
        polls.push(tokio::spawn(async move {
            let item = name("p", "s");
            let range = Range {
                pk: "p".into(),
                ..Range::default()
            };
            let time = Duration::from_secs(300);
            let all = model.poll_range(&bucket, &range, None, time).await;
            let marker = all.unwrap().unwrap().marker;
            let seen = read(&model, &bucket, "p", "s").await.unwrap();
            tokio::join!(
                async {
                    let polled = model.poll_item(&bucket, &item, &seen.token, time);
                    polled.await.err()
                },
                async {
                    let polled = model.poll_range(&bucket, &range, Some(&marker[..]), time);
                    polled.await.err()
                },
            )
        }));
    }
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(polls.iter().all(|poll| !poll.is_finished()));
    // Another bucket that goes ends none of them.
    let other = models[1].create_bucket("other", None).await.unwrap();
    models[1].delete_bucket(&other).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(polls.iter().all(|poll| !poll.is_finished()));
    models[0].delete_bucket(&bucket).await.unwrap();
    let deleted = Instant::now();
    for poll in polls {
        let gone = Some(Error::NoSuchBucket);
        assert_eq!(poll.await.unwrap(), (gone.clone(), gone));
    }
    assert!(deleted.elapsed() < ROUND_TRIP, "{:?}", deleted.elapsed());
}

/// Writers at all nodes, links that are cut for a while, and pollers that follow one item from
/// value to value and one range from marker to marker: both end with the last acknowledged values.
#[tokio::test(start_paused = true)]
async fn no_poll_misses_a_change() {
    for seed in 0..12 {
        let Nodes {
            world,
            models,
            bucket,
        } = Nodes::new(seed).await;
        let first = insert("p", "s", None, "0");
        models[0].insert_item(&bucket, &first).await.unwrap();
        let mut pollers = Vec::new();
        for model in &models {
            let (model, bucket) = (model.clone(), bucket.clone());
            pollers.push(tokio::spawn(follow_item(model.clone(), bucket.clone())));
            pollers.push(tokio::spawn(follow_range(model, bucket)));
        }
        let random = SeededRandom::new(seed);
        for round in 1..=20u64 {
            let pick = |n: u64| (random.next_u64() % n) as usize;
            let (a, b) = (world.ids[pick(3)], world.ids[pick(3)]);
            if a != b && pick(2) == 0 {
                world.network.cut(a, b);
                world.network.cut(b, a);
            } else {
                world.network.end_all_cuts();
            }
            let model = &models[pick(3)];
            let write = async {
                let seen = model.read_item(&bucket, &name("p", "s")).await?;
                let token = seen.map(|seen| seen.token);
                let value = insert("p", "s", token.as_ref(), &round.to_string());
                model.insert_item(&bucket, &value).await
            };
            // An error means that the write may have happened or not.
            let _ = write.await;
            tokio::time::sleep(Duration::from_millis(random.next_u64() % 3000)).await;
        }
        world.network.end_all_cuts();
        let last = loop {
            let seen = models[0].read_item(&bucket, &name("p", "s")).await;
            if let Ok(Some(seen)) = seen {
                let value = insert("p", "s", Some(&seen.token), "end");
                if models[0].insert_item(&bucket, &value).await.is_ok() {
                    break Instant::now();
                }
            }
        };
        for poller in pollers {
            let ended = tokio::time::timeout(Duration::from_secs(60), poller).await;
            ended
                .unwrap_or_else(|_| panic!("seed {seed}: a poll missed the last change"))
                .unwrap();
        }
        assert!(last.elapsed() < Duration::from_secs(60));
    }
}

/// Follows an item until its value is "end".
async fn follow_item(model: Model, bucket: Arc<Bucket>) {
    let mut seen: Option<Item> = None;
    while seen.as_ref().is_none_or(|item| texts(item) != ["end"]) {
        let time = Duration::from_secs(600);
        let news = match &seen {
            None => model.read_item(&bucket, &name("p", "s")).await,
            Some(item) => {
                model
                    .poll_item(&bucket, &name("p", "s"), &item.token, time)
                    .await
            }
        };
        match news {
            Ok(Some(item)) => seen = Some(item),
            Ok(None) => panic!("nothing for ten minutes"),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Follows a range until the value of its item is "end".
async fn follow_range(model: Model, bucket: Arc<Bucket>) {
    let range = Range {
        pk: "p".into(),
        ..Range::default()
    };
    let mut marker: Option<Bytes> = None;
    loop {
        let time = Duration::from_secs(600);
        let polled = model.poll_range(&bucket, &range, marker.as_deref(), time);
        match polled.await {
            Ok(Some(polled)) => {
                if polled.items.iter().any(|(_, item)| texts(item) == ["end"]) {
                    return;
                }
                marker = Some(polled.marker);
            }
            Ok(None) => panic!("nothing for ten minutes"),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}
