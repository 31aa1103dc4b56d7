//! The reason that is shown for a layout change that does not continue.

use archipel_base::{NodeId, PartitionId};
use archipel_cluster::change::Progress;
use archipel_storage::RowKey;
use bytes::Bytes;

use super::{admin, make_bucket};
use crate::admin::Admin;
use crate::admin::layout::describe_progress;

/// Returns the trouble that is shown for a change which has this one.
async fn shown(admin: &Admin, trouble: &str, row: Option<RowKey>) -> String {
    let progress = Progress {
        from_version: 1,
        to_version: 2,
        partitions: 1,
        done: 0,
        rows: 1,
        trouble: Some(trouble.to_owned()),
        row,
        driver: NodeId::default(),
    };
    let shown = describe_progress(admin, Some(progress)).await;
    shown.unwrap().trouble.unwrap()
}

/// The cluster knows a row by its bytes, and an operator by its bucket.
#[tokio::test]
async fn a_row_that_cannot_be_moved_is_named_as_operators_know_it() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let (cluster, all) = (admin.model.cluster(), Bytes::new());
    let rows = cluster.scan_whole(PartitionId::CONTROL, &all).await;
    let mut named = Vec::new();
    for row in rows.unwrap() {
        named.push(shown(&admin, "its block is lost", Some(row.key)).await);
    }
    let expected = "its block is lost (the row is bucket photos)";
    assert!(named.iter().any(|text| text == expected), "{named:?}");
    assert_eq!(shown(&admin, "no node", None).await, "no node");
}
