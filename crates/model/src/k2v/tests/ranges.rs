//! Ranges and the index.

use super::*;

#[tokio::test]
async fn ranges_page_in_both_directions() {
    let (model, bucket) = alone().await;
    let inserts = (0..25).map(|n| insert("p", &format!("a{n:02}"), None, "v"));
    model
        .insert_items(&bucket, inserts.collect())
        .await
        .unwrap();
    for (pk, sk) in [("p", "b"), ("o", "a03"), ("q", "a03")] {
        let other = insert(pk, sk, None, "other");
        model.insert_item(&bucket, &other).await.unwrap();
    }
    for reverse in [false, true] {
        let mut start: Option<String> = None;
        let mut all = Vec::new();
        loop {
            let range = Range {
                pk: "p".into(),
                prefix: Some("a".into()),
                start: start.clone(),
                limit: Some(7),
                reverse,
                ..Range::default()
            };
            let page = model
                .read_ranges(&bucket, &[range], usize::MAX)
                .await
                .unwrap()
                .remove(0);
            assert!(page.items.len() <= 7);
            all.extend(page.items.into_iter().map(|(sk, _)| sk));
            match page.next {
                Some(next) => start = Some(next),
                None => break,
            }
        }
        let mut expected: Vec<_> = (0..25).map(|n| format!("a{n:02}")).collect();
        if reverse {
            expected.reverse();
        }
        assert_eq!(all, expected);
    }
    let sks = |range: Range| {
        let (model, bucket) = (model.clone(), bucket.clone());
        async move {
            let page = model
                .read_ranges(&bucket, &[range], usize::MAX)
                .await
                .unwrap()
                .remove(0);
            page.items.into_iter().map(|(sk, _)| sk).collect::<Vec<_>>()
        }
    };
    let bounded = |start: &str, end: &str, reverse| Range {
        pk: "p".into(),
        start: Some(start.into()),
        end: Some(end.into()),
        reverse,
        ..Range::default()
    };
    assert_eq!(sks(bounded("a03", "a05", false)).await, ["a03", "a04"]);
    assert_eq!(sks(bounded("a05", "a03", true)).await, ["a05", "a04"]);
    assert!(sks(bounded("a05", "a03", false)).await.is_empty());
    // Conflicts and tombstones.
    let conflict = insert("p", "a07", None, "w");
    model.insert_item(&bucket, &conflict).await.unwrap();
    let seen = read(&model, &bucket, "p", "a08").await.unwrap();
    let deletion = delete("p", "a08", &seen.token);
    model.insert_item(&bucket, &deletion).await.unwrap();
    let conflicts = Range {
        conflicts_only: true,
        ..bounded("a", "b", false)
    };
    assert_eq!(sks(conflicts).await, ["a07"]);
    assert_eq!(sks(bounded("a07", "a10", false)).await, ["a07", "a09"]);
    let all = Range {
        tombstones: true,
        ..bounded("a07", "a10", false)
    };
    assert_eq!(sks(all).await, ["a07", "a08", "a09"]);
    let deleted = model
        .delete_range(&bucket, &bounded("a07", "a10", false))
        .await;
    assert_eq!(deleted, Ok(2));
    assert!(sks(bounded("a07", "a10", false)).await.is_empty());
    let counts = |entries, conflicts, values, bytes| Counts {
        entries,
        conflicts,
        values,
        bytes,
    };
    let twice = insert("o", "a03", None, "2");
    model.insert_item(&bucket, &twice).await.unwrap();
    let index = model
        .read_index(&bucket, &IndexQuery::default())
        .await
        .unwrap();
    let expected = [
        ("o".to_owned(), counts(1, 1, 2, 6)),
        ("p".to_owned(), counts(23, 0, 23, 27)),
        ("q".to_owned(), counts(1, 0, 1, 5)),
    ];
    assert_eq!(index.partition_keys, expected);
    assert_eq!(index.next, None);
}

/// Without a limit, all items come, and all partition keys.
#[tokio::test]
async fn a_search_without_a_limit_gets_everything() {
    let (model, bucket) = alone().await;
    let inserts = (0..2500).map(|n| insert("p", &format!("a{n:04}"), None, "v"));
    model
        .insert_items(&bucket, inserts.collect())
        .await
        .unwrap();
    let inserts = (0..2500).map(|n| insert(&format!("q{n:04}"), "a", None, "v"));
    model
        .insert_items(&bucket, inserts.collect())
        .await
        .unwrap();
    for reverse in [false, true] {
        let range = Range {
            pk: "p".into(),
            reverse,
            ..Range::default()
        };
        let pages = model.read_ranges(&bucket, &[range], 16 << 20).await;
        let page = pages.unwrap().remove(0);
        assert_eq!((page.items.len(), page.next), (2500, None), "{reverse}");
        let query = IndexQuery {
            reverse,
            ..IndexQuery::default()
        };
        let index = model.read_index(&bucket, &query).await.unwrap();
        let keys = index.partition_keys;
        assert_eq!((keys.len(), index.next), (2501, None), "{reverse}");
        let of_items = keys.iter().filter(|(_, counts)| counts.entries == 1);
        assert_eq!(of_items.count(), 2500, "{reverse}");
    }
}

/// Searches that find more than an answer holds: the first ones come first, and each says where it
/// goes on. So a client that asks on gets everything once.
#[tokio::test]
async fn searches_without_room_go_on_later() {
    let (model, bucket) = alone().await;
    let long = "v".repeat(10_000);
    for pk in ["p", "q", "r", "s"] {
        let inserts = (0..40).map(|n| insert(pk, &format!("a{n:02}"), None, &long));
        let inserts = inserts.collect();
        model.insert_items(&bucket, inserts).await.unwrap();
    }
    let search = |pk: &str, reverse| Range {
        pk: pk.into(),
        reverse,
        ..Range::default()
    };
    let searches = || {
        vec![
            search("p", false),
            search("q", true),
            search("r", false),
            search("s", true),
        ]
    };
    // The smallest has room for four items.
    for room in [45_000, 500_000, 1_000_000, 10_000_000] {
        let mut left = searches();
        let mut found: Vec<Vec<String>> = vec![Vec::new(); 4];
        let mut turns = 0;
        while !left.is_empty() {
            let pages = model.read_ranges(&bucket, &left, room).await.unwrap();
            let items = pages.iter().flat_map(|page| &page.items);
            let bytes: usize = items.map(|(_, item)| item.bytes()).sum();
            assert!(bytes <= room, "{bytes} in {room}");
            let first = &pages[0];
            assert!(!first.items.is_empty() || first.next.is_none());
            let mut rest = Vec::new();
            for (range, page) in left.into_iter().zip(pages) {
                let of = "pqrs".find(&range.pk).unwrap();
                found[of].extend(page.items.into_iter().map(|(sk, _)| sk));
                rest.extend(page.next.map(|next| Range {
                    start: Some(next),
                    ..range
                }));
            }
            left = rest;
            turns += 1;
        }
        for (found, range) in found.into_iter().zip(searches()) {
            let mut expected: Vec<_> = (0..40).map(|n| format!("a{n:02}")).collect();
            if range.reverse {
                expected.reverse();
            }
            assert_eq!(found, expected, "{room} {range:?}");
        }
        assert_eq!(turns == 1, room == 10_000_000, "{room} took {turns}");
    }
}

#[tokio::test]
async fn the_index_pages_in_both_directions() {
    let (model, bucket) = alone().await;
    let inserts = (0..60).map(|n| insert(&format!("p{n:02}"), "s", None, "v"));
    model
        .insert_items(&bucket, inserts.collect())
        .await
        .unwrap();
    for (reverse, prefix) in [(false, "p"), (true, "p"), (false, "p1"), (true, "p1")] {
        let (mut start, mut all) = (None, Vec::new());
        loop {
            let query = IndexQuery {
                prefix: Some(prefix.into()),
                start: start.clone(),
                limit: Some(7),
                reverse,
                ..IndexQuery::default()
            };
            let index = model.read_index(&bucket, &query).await.unwrap();
            assert!(index.partition_keys.len() <= 7);
            for (pk, counts) in index.partition_keys {
                assert_eq!(counts.entries, 1);
                all.push(pk);
            }
            match index.next {
                Some(next) => start = Some(next),
                None => break,
            }
        }
        let mut expected: Vec<_> = (0..60).map(|n| format!("p{n:02}")).collect();
        expected.retain(|pk| pk.starts_with(prefix));
        if reverse {
            expected.reverse();
        }
        assert_eq!(all, expected, "{reverse} {prefix}");
    }
    let bounded = |start: &str, end: &str, reverse| IndexQuery {
        start: Some(start.into()),
        end: Some(end.into()),
        reverse,
        ..IndexQuery::default()
    };
    for (query, expected) in [
        (bounded("p05", "p07", false), ["p05", "p06"]),
        (bounded("p07", "p05", true), ["p07", "p06"]),
    ] {
        let index = model.read_index(&bucket, &query).await.unwrap();
        let pks: Vec<_> = index.partition_keys.iter().map(|(pk, _)| pk).collect();
        assert_eq!(pks, expected);
    }
}
