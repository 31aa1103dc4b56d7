//! Listings of uploads.

use archipel_cluster::WriteOptions;
use archipel_storage::Value;
use archipel_storage::engine::Durability;

use super::*;
use crate::UploadQuery;
use crate::rowkeys;

#[tokio::test]
async fn uploads_are_listed_by_key_with_common_prefixes() {
    let (model, bucket) = model().await;
    for key in ["a/1", "a/2", "b", "c"] {
        model
            .create_upload(&bucket, key, None, UploadMeta::default())
            .await
            .unwrap();
    }
    let mut query = UploadQuery {
        delimiter: Some("/".into()),
        limit: 2,
        ..UploadQuery::default()
    };
    let page = model.list_uploads(&bucket, &query).await.unwrap();
    assert_eq!(page.prefixes, ["a/"]);
    assert_eq!(page.uploads[0].key, "b");
    assert!(page.truncated);
    query.after_key = Some("b".into());
    let page = model.list_uploads(&bucket, &query).await.unwrap();
    assert_eq!(page.uploads[0].key, "c");
    assert!(!page.truncated && page.prefixes.is_empty());
}

#[tokio::test]
async fn uploads_of_a_key_are_listed_as_they_began() {
    let (model, bucket) = model().await;
    let mut begun = Vec::new();
    for _ in 0..8 {
        let upload = model.create_upload(&bucket, "k", None, UploadMeta::default());
        begun.push(upload.await.unwrap().id);
    }
    let mut query = UploadQuery {
        limit: 5,
        ..UploadQuery::default()
    };
    let first = model.list_uploads(&bucket, &query).await.unwrap();
    query.after_key = Some("k".into());
    query.after_id = first.uploads.last().map(|upload| upload.id);
    let rest = model.list_uploads(&bucket, &query).await.unwrap();
    let listed = first.uploads.iter().chain(&rest.uploads);
    assert_eq!(listed.map(|upload| upload.id).collect::<Vec<_>>(), begun);
}

/// Returns the names of a page: keys and common prefixes.
fn names(page: &crate::UploadPage) -> Vec<String> {
    let keys = page.uploads.iter().map(|upload| upload.key.clone());
    keys.chain(page.prefixes.iter().cloned()).collect()
}

/// An upload that cannot be decoded lies behind the page.
#[tokio::test]
async fn a_page_of_uploads_reads_no_more_than_it_needs() {
    let (model, bucket) = model().await;
    for n in 0..200 {
        let key = format!("k{n:03}");
        let begun = model.create_upload(&bucket, &key, None, UploadMeta::default());
        begun.await.unwrap();
    }
    let partitions = rowkeys::bucket_partitions(model.cluster(), &bucket.id);
    for partition in partitions {
        let name = crate::owner::UploadName::new(&bucket.id, "z", &model.random_id());
        let row = rowkeys::upload_in(partition, &name);
        let value = Value {
            metadata: Bytes::from_static(b"\x01not an upload"),
            ..Value::default()
        };
        let how = WriteOptions::durable(Durability::Fsync);
        let written = model.cluster().write(&row, Some(value), how);
        written.await.unwrap();
    }
    let query = UploadQuery {
        prefix: "k".into(),
        limit: 5,
        ..UploadQuery::default()
    };
    let page = model.list_uploads(&bucket, &query).await.unwrap();
    assert_eq!(names(&page), ["k000", "k001", "k002", "k003", "k004"]);
    assert!(page.truncated);
}

/// Pages of any size show the same uploads as one page of all.
#[tokio::test]
async fn pages_of_uploads_add_up() {
    let (model, bucket) = model().await;
    for n in 0..60 {
        for key in [format!("dir{}/{n}", n % 7), format!("k{}", n % 20)] {
            let begun = model.create_upload(&bucket, &key, None, UploadMeta::default());
            begun.await.unwrap();
        }
    }
    for delimiter in [None, Some("/"), Some("1")] {
        for prefix in ["", "d", "dir3/", "k1"] {
            let mut query = UploadQuery {
                prefix: prefix.into(),
                delimiter: delimiter.map(str::to_owned),
                limit: 1000,
                ..UploadQuery::default()
            };
            let all = model.list_uploads(&bucket, &query).await.unwrap();
            assert!(!all.truncated);
            for limit in [1, 3, 50] {
                query.limit = limit;
                (query.after_key, query.after_id) = (None, None);
                let (mut uploads, mut prefixes) = (Vec::new(), Vec::new());
                loop {
                    let page = model.list_uploads(&bucket, &query).await.unwrap();
                    assert!(page.uploads.len() + page.prefixes.len() <= limit);
                    let last = page.uploads.last();
                    let key = last.map(|upload| upload.key.clone());
                    let prefix = page.prefixes.last().cloned();
                    query.after_id = match (&key, &prefix) {
                        (Some(key), Some(prefix)) if prefix > key => None,
                        _ => last.map(|upload| upload.id),
                    };
                    query.after_key = key.max(prefix);
                    uploads.extend(page.uploads);
                    prefixes.extend(page.prefixes);
                    if !page.truncated {
                        break;
                    }
                }
                assert_eq!(
                    (uploads, prefixes),
                    (all.uploads.clone(), all.prefixes.clone())
                );
            }
        }
    }
}
