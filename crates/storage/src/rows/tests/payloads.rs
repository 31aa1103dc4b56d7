//! Locations of payloads.

use bytes::Bytes;

use crate::engine::Durability;
use crate::row::{Payload, Row, Value};
use crate::store::tests::{Parts, assert_clean, block_on, key, row};

/// Short payloads are stored in their rows, others separately. A replaced payload leaves nothing behind.
#[test]
fn replacing_a_payload_by_any_kind_leaves_nothing_of_the_old_one() {
    let payloads = [
        Payload::Empty,
        Payload::Inline(Bytes::new()),
        Payload::Inline(Bytes::from(vec![1; 512])),
        Payload::Inline(Bytes::from(vec![2; 513])),
        Payload::Inline(Bytes::from(vec![3; 3000])),
    ];
    let store = Parts::new().open();
    let mut time = 1;
    for first in &payloads {
        for second in payloads.iter().map(Some).chain([None]) {
            for payload in [Some(first), second] {
                let mut written = row(time, "metadata");
                written.value = written.value.zip(payload).map(|(value, payload)| Value {
                    payload: payload.clone(),
                    ..value
                });
                time += 1;
                let expected = Some(written.clone());
                let set =
                    store.transact(Durability::Fsync, move |txn| txn.set(&key("a"), &written));
                block_on(set).unwrap();
                let found = block_on(store.read(|rows| {
                    let metadata = rows.metadata(&key("a"))?.map(Row::from);
                    Ok((rows.row(&key("a"))?, metadata))
                }));
                let (found, metadata) = found.unwrap();
                let metadata = [&found, &metadata].map(|row| row.clone().and_then(|row| row.value));
                let [of_row, of_metadata] = metadata.map(|value| value.map(|value| value.metadata));
                assert_eq!((found, of_row), (expected, of_metadata));
                assert_clean(&store);
            }
        }
    }
}
