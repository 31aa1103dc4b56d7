//! Walks as the status tells of them.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_node_in_no_layout_tells_why_no_walk_begins() {
    let latency = Duration::from_millis(1);
    let world = World::unfounded(1, latency, 1, crate::HOOKS).await.unwrap();
    let model = Model::open(world.nodes[0].clone()).await.unwrap();
    model.start_expiry();
    let progress = &mut Progress::default();
    model.expire_what_is_due(progress).await.unwrap();
    let status = model.expiry_status();
    assert!(status.waiting && !status.running);
    assert_eq!(status.trouble.as_deref(), Some("this node is in no layout"));
}

#[tokio::test]
async fn failures_of_earlier_walks_are_told_apart() {
    let (model, _wall) = model().await;
    set(&model, vec![rule("old/", Expiration::Days(2))]).await;
    model.count_expiry(|counts| counts.failed = 2);
    let progress = &mut Progress::default();
    expire(&model, progress).await;
    let status = model.expiry_status();
    assert!(status.parts > 0 && status.parts_done == status.parts);
    assert_eq!((status.counts.failed, status.failed_before), (2, 2));
    assert_eq!(status.trouble, None);
}

#[tokio::test]
async fn a_walk_without_anything_to_do_leaves_nothing() {
    let (model, _wall) = model().await;
    for (is_asked, done, expected) in [(false, 3, (0, 0)), (false, 8, (8, 8)), (true, 8, (0, 0))] {
        // An earlier one broke off, or was through.
        let earlier = |status: &mut ExpiryStatus| (status.parts, status.parts_done) = (8, done);
        model.inner.expiry.change(earlier);
        if is_asked {
            model.start_expiry();
        }
        expire(&model, &mut Progress::default()).await;
        let status = model.expiry_status();
        assert!(!status.waiting);
        assert_eq!((status.parts, status.parts_done), expected);
    }
}

#[tokio::test]
async fn a_walk_waits_from_the_request_to_its_beginning() {
    let (model, _wall) = model().await;
    let progress = &mut Progress::default();
    let waits = || model.expiry_status().waiting;
    assert!(!waits());
    model.start_expiry();
    assert!(waits());
    expire(&model, progress).await;
    assert!(!waits(), "without rules there is nothing to walk");
    set(&model, vec![rule("old/", Expiration::Days(2))]).await;
    expire(&model, progress).await;
    let ended = model.expiry_status();
    assert!(ended.parts_done > 0);
    model.start_expiry();
    assert!(waits());
    expire(&model, progress).await;
    assert!(!waits());
    assert_eq!(
        model.expiry_status().parts_done,
        ended.parts_done,
        "walked again"
    );
    model.start_expiry();
    model.stop_expiry();
    assert!(!waits(), "cancelled");
    let cancelled = model.expiry_status();
    assert!(cancelled.parts_done < cancelled.parts, "it is not through");
}

#[tokio::test]
async fn a_stop_without_a_walk_does_not_keep_the_next_one_from_its_beginning() {
    let (model, _wall) = model().await;
    model.stop_expiry();
    set(&model, vec![rule("old/", Expiration::Days(2))]).await;
    expire(&model, &mut Progress::default()).await;
    assert!(model.expiry_status().parts_done > 0);
}
