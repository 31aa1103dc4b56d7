use archipel_base::PartitionId;
use bytes::Bytes;

use super::*;

fn recent() -> Recent {
    let bounds = Bounds::without_floors(0, 0);
    Recent::forgotten(Rules::CORRECT, &Cell::<Value>::default(), &bounds)
}

fn key(name: &'static str) -> RowKey {
    RowKey {
        partition: PartitionId(0),
        key: Bytes::from_static(name.as_bytes()),
    }
}

/// A commit that failed may have held any of the writes that were remembered: none counts any
/// more, whoever asks first.
#[test]
fn what_was_remembered_before_a_commit_was_undone_is_forgotten() {
    let mut remembered = Remembered::default();
    remembered.put(key("a"), recent());
    remembered.put(key("b"), recent());
    assert!(remembered.take(&key("a"), 0).is_some());
    assert!(remembered.take(&key("b"), 1).is_none());
    remembered.put(key("b"), recent());
    assert!(remembered.take(&key("b"), 1).is_some());
}

#[test]
fn memory_is_bounded() {
    let mut remembered = Remembered::default();
    for n in 0..3 * REMEMBERED_ROWS {
        let name = n.to_string().into_bytes();
        let key = RowKey {
            key: name.into(),
            ..key("")
        };
        remembered.put(key, recent());
    }
    assert!(remembered.young.len() + remembered.old.len() <= REMEMBERED_ROWS);
}
