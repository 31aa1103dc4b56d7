//! Where bodies stand.

use bytes::Bytes;

use crate::engine::Durability;
use crate::row::{Body, Row, Value};
use crate::store::tests::{Parts, assert_clean, block_on, key, row};

/// Short bodies stand in their rows, others apart; nothing of one is left when another follows.
#[test]
fn a_body_of_each_kind_may_follow_each_other() {
    let bodies = [
        Body::Empty,
        Body::Inline(Bytes::new()),
        Body::Inline(Bytes::from(vec![1; 512])),
        Body::Inline(Bytes::from(vec![2; 513])),
        Body::Inline(Bytes::from(vec![3; 3000])),
    ];
    let store = Parts::new().open();
    let mut time = 1;
    for first in &bodies {
        for second in bodies.iter().map(Some).chain([None]) {
            for body in [Some(first), second] {
                let mut written = row(time, "head");
                written.value = written.value.zip(body).map(|(value, body)| Value {
                    body: body.clone(),
                    ..value
                });
                time += 1;
                let expected = Some(written.clone());
                let set =
                    store.transact(Durability::Fsync, move |txn| txn.set(&key("a"), &written));
                block_on(set).unwrap();
                let found = block_on(store.read(|rows| {
                    let head = rows.head(&key("a"))?.map(Row::from);
                    Ok((rows.row(&key("a"))?, head))
                }));
                let (found, head) = found.unwrap();
                let heads = [&found, &head].map(|row| row.clone().and_then(|row| row.value));
                let [of_row, of_head] = heads.map(|value| value.map(|value| value.head));
                assert_eq!((found, of_row), (expected, of_head));
                assert_clean(&store);
            }
        }
    }
}
