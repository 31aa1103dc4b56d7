//! Rows that point to a write of another row.

use super::*;
use crate::node::wire::Pointer;

/// Returns a request of an operation on the row "deciding" that ends the row "aside".
fn both(node: &Cluster, request: Request<Value>) -> RowCall {
    RowCall {
        pointing: Some(Pointer {
            key: key("aside").key,
            intent: INTENT,
            is_announced: false,
        }),
        ..call(node, "deciding", request)
    }
}

/// A replica that gets a value from another replica marks the row that the value names.
#[tokio::test]
async fn an_offered_value_marks_the_row_that_it_names() {
    let (node, _engine) = alone(ASIDE).await;
    let how = || WriteOptions::durable(Durability::Fsync);
    node.write(&key("aside"), Some(text(b"live")), how())
        .await
        .unwrap();
    assert_eq!(aside(&node).await, None);
    let stamp = node.next_stamp(Stamp::ZERO);
    assert!(offered(&node, stamp).await == Applied::Yes);
    assert_eq!(aside(&node).await, Some(INTENT));
    // A row that is over stays over.
    node.write(&key("aside"), None, how()).await.unwrap();
    let newer = node.next_stamp(Stamp::ZERO);
    assert!(offered(&node, newer).await == Applied::Yes);
    assert_eq!(node.read(&key("aside")).await.unwrap(), None);
}

#[tokio::test]
async fn an_offer_that_is_not_held_is_not_remembered_as_accepted() {
    let (node, _engine) = alone(ASIDE).await;
    let how = || WriteOptions::durable(Durability::Fsync);
    let stamp = Stamp::new(node.now_ms() - 1000, 0, archipel_base::Writer(9));
    node.write(&key("aside"), Some(text(b"live")), how())
        .await
        .unwrap();
    // The row is newer than the value that names it, so it cannot point to it.
    assert!(offered(&node, stamp).await == Applied::Promised);
    assert_eq!(aside(&node).await, None);
    let ballot = Stamp::new(node.now_ms() + 1000, 0, archipel_base::Writer(9));
    let asking = prepare(ballot, Some(INTENT.write), false);
    match ask(&node, call(&node, "deciding", asking)).await {
        Ok(Answer::Promised { accepted, .. }) => assert_eq!(accepted, Vec::<Stamp>::new()),
        other => panic!("{other:?}"),
    }
}

/// A replica missed the pointing row. It could get that row later, live and without an intent, and
/// promise another operation to end it, too. So it does not accept the write that ends the row,
/// from anyone.
#[tokio::test]
async fn a_replica_that_lacks_the_pointing_row_does_not_accept_the_write_that_ends_it() {
    let (node, _engine) = alone(ASIDE).await;
    let own = |request| both(&node, request);
    let stamp = Stamp::new(node.now_ms() + 1000, 0, archipel_base::Writer(9));
    let write = |value| Request::Write {
        version: Version {
            stamp,
            write: INTENT.write,
            value: Some(text(value)),
        },
        guarded: true,
    };
    // The value may name the row, or not.
    for value in [&b"names"[..], b"as it was"] {
        let answer = ask(&node, own(write(value))).await.unwrap();
        assert_eq!(answer, Answer::LacksPointing);
        assert_eq!(node.read(&key("deciding")).await.unwrap(), None);
    }
    // Nor does it take the value from another replica or a reader.
    assert_eq!(offered(&node, stamp).await, Applied::LacksPointing);
    let answer = call(&node, "deciding", write(b"names"));
    let answer = ask(&node, answer).await.unwrap();
    assert_eq!(answer, Answer::LacksPointing);
    let how = || WriteOptions::durable(Durability::Fsync);
    let aside_row = key("aside");
    let live = node.write(&aside_row, Some(text(b"live")), how());
    live.await.unwrap();
    let answer = ask(&node, own(write(b"names"))).await.unwrap();
    assert_eq!(answer, Answer::Accepted);
    assert_eq!(aside(&node).await, Some(INTENT));
}

/// A completion from long ago reaches a store that has just joined. A quorum tells that the upload
/// is over.
#[tokio::test]
async fn a_value_is_accepted_once_the_pointing_row_is_known_to_be_over() {
    let (node, _engine) = alone(ASIDE).await;
    let version = Version {
        stamp: node.next_stamp(Stamp::ZERO),
        write: INTENT.write,
        value: Some(text(b"names")),
    };
    let write = Request::Write {
        version,
        guarded: false,
    };
    let answer = node.0.data.answer(call(&node, "deciding", write)).await;
    assert_eq!(answer.unwrap(), Answer::Accepted);
    assert_eq!(node.read(&key("aside")).await.unwrap(), None);
}

/// A deletion of the current version may make a null version current that a minority holds, of a
/// completion without an answer. It has another id than the completion, and yet the upload is over.
#[tokio::test]
async fn a_later_write_marks_a_live_row_that_its_value_names() {
    let (node, _engine) = alone(ASIDE).await;
    node.write(
        &key("aside"),
        Some(text(b"live")),
        WriteOptions::durable(Durability::Fsync),
    )
    .await
    .unwrap();
    let promoted = Request::Write {
        version: Version {
            stamp: node.next_stamp(Stamp::ZERO),
            write: Id([8; 16]),
            value: Some(text(b"names")),
        },
        guarded: false,
    };
    let answer = ask(&node, call(&node, "deciding", promoted)).await;
    assert_eq!(answer.unwrap(), Answer::Accepted);
    assert_eq!(aside(&node).await, Some(INTENT));
}

/// An abort writes the object as it is. An earlier upload may have become that object, and its row
/// may be gone for long.
#[tokio::test]
async fn an_abort_needs_no_row_of_the_upload_that_became_the_object() {
    let (node, _engine) = alone(ASIDE).await;
    let how = || WriteOptions::durable(Durability::Fsync);
    node.write(&key("second"), Some(text(b"live")), how())
        .await
        .unwrap();
    let abort = Intent {
        write: Id([8; 16]),
        ..INTENT
    };
    let request = Request::Write {
        version: Version {
            stamp: Stamp::new(node.now_ms() + 1000, 0, archipel_base::Writer(9)),
            write: abort.write,
            value: Some(text(b"names")),
        },
        guarded: true,
    };
    let abort = RowCall {
        pointing: Some(Pointer {
            key: key("second").key,
            intent: abort,
            is_announced: false,
        }),
        ..call(&node, "deciding", request)
    };
    let answer = ask(&node, abort).await.unwrap();
    assert_eq!(answer, Answer::Accepted);
}

/// A coordinator that has prepared the pointing row (to end it, or to make it live again) and one
/// that has prepared both rows never both write.
#[tokio::test]
async fn a_mark_obeys_the_promise_of_the_row_that_it_marks() {
    let (node, _engine) = alone(ASIDE).await;
    let how = || WriteOptions::durable(Durability::Fsync);
    node.write(&key("aside"), Some(text(b"live")), how())
        .await
        .unwrap();
    let both = |request| both(&node, request);
    let [low, high] = [1000, 2000].map(|ahead| {
        let millis = node.now_ms() + ahead;
        Stamp::new(millis, 0, archipel_base::Writer(9))
    });
    let answer = ask(&node, both(prepare(low, None, true))).await;
    assert!(matches!(answer, Ok(Answer::Promised { .. })), "{answer:?}");
    let aside_first = call(&node, "aside", prepare(high, None, false));
    let answer = ask(&node, aside_first).await;
    assert!(matches!(answer, Ok(Answer::Promised { .. })), "{answer:?}");
    let write = |stamp| Request::Write {
        version: Version {
            stamp,
            write: INTENT.write,
            value: Some(text(b"names")),
        },
        guarded: true,
    };
    let refused = Answer::Stale {
        highest: high,
        remembered: None,
    };
    let answer = ask(&node, both(write(low))).await.unwrap();
    assert_eq!(answer, refused);
    assert_eq!(node.read(&key("deciding")).await.unwrap(), None);
    // A lower ballot than the promise of the other row is refused for both rows.
    let answer = ask(&node, both(prepare(low, None, true))).await;
    assert_eq!(answer.unwrap(), refused);
    let answer = ask(&node, both(write(high))).await.unwrap();
    assert_eq!(answer, Answer::Accepted);
    assert_eq!(aside(&node).await, Some(INTENT));
    // A second operation finds the mark.
    let later = Stamp::new(node.now_ms() + 3000, 0, archipel_base::Writer(9));
    let answer = ask(&node, both(prepare(later, None, true))).await;
    assert_eq!(answer.unwrap(), Answer::Guarded);
}
