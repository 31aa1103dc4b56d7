//! The `object_store` crate's own integration helpers, against the S3 endpoint that the `AWS_*` variables name.
//!
//! Each helper expects an empty store, so they run one after another in one test, each under a bucket that it leaves empty.

use futures_util::TryStreamExt;
use http::StatusCode;
use object_store::aws::{AmazonS3, AmazonS3Builder, S3ConditionalPut, S3CopyIfNotExists};
use object_store::integration::{
    copy_if_not_exists, copy_rename_nonexistent_object, get_nonexistent_object, get_opts,
    list_paginated, list_uses_directories_correctly, list_with_delimiter,
    list_with_offset_exclusivity, multipart, multipart_out_of_order,
    multipart_put_part_out_of_order, multipart_race_condition, multipart_with_opts,
    put_get_attributes, put_get_delete_list, put_opts, rename_and_copy, stream_get,
};
use object_store::{ObjectStore, ObjectStoreExt};

fn builder() -> AmazonS3Builder {
    // The endpoint speaks plain HTTP, but the HTTP client wants to know its TLS provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    AmazonS3Builder::from_env()
        .with_allow_http(true)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_copy_if_not_exists(S3CopyIfNotExists::Multipart)
}

fn store() -> AmazonS3 {
    built(builder())
}

fn built(builder: AmazonS3Builder) -> AmazonS3 {
    builder
        .build()
        .expect("the AWS_* variables describe a store")
}

/// The store without anything that an earlier helper left in it: each expects to begin with nothing.
async fn empty() -> AmazonS3 {
    let store = store();
    let left: Vec<_> = store.list(None).try_collect().await.expect("a listing");
    for object in left {
        store.delete(&object.location).await.expect("a deletion");
    }
    store
}

#[tokio::test]
async fn every_helper() {
    put_get_delete_list(&empty().await).await;
    put_get_attributes(&empty().await).await;
    get_opts(&empty().await).await;
    put_opts(&empty().await, true).await;
    stream_get(&empty().await).await;
    list_uses_directories_correctly(&empty().await).await;
    list_with_delimiter(&empty().await).await;
    list_with_offset_exclusivity(&empty().await).await;
    let store = empty().await;
    list_paginated(&store, &store).await;
    rename_and_copy(&empty().await).await;
    for way in [
        S3CopyIfNotExists::Multipart,
        S3CopyIfNotExists::HeaderWithStatus(
            "If-None-Match".into(),
            "*".into(),
            StatusCode::PRECONDITION_FAILED,
        ),
    ] {
        empty().await;
        copy_if_not_exists(&built(builder().with_copy_if_not_exists(way))).await;
    }
    copy_rename_nonexistent_object(&empty().await).await;
    assert!(get_nonexistent_object(&empty().await, None).await.is_err());
    let store = empty().await;
    multipart(&store, &store).await;
    multipart_with_opts(&store, &store).await;
    multipart_put_part_out_of_order(&store, &store).await;
    multipart_out_of_order(&empty().await).await;
    multipart_race_condition(&empty().await, true).await;
}
