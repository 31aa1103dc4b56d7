//! The `object_store` crate's own integration helpers, against the S3 endpoint that the `AWS_*` variables name.
//!
//! Each helper expects an empty store, so they run one after another in one test, each under a bucket that it leaves empty.

use object_store::ObjectStore;
use object_store::aws::{AmazonS3, AmazonS3Builder, S3ConditionalPut};
use object_store::integration::{
    copy_if_not_exists, copy_rename_nonexistent_object, get_nonexistent_object, get_opts, list_paginated,
    list_uses_directories_correctly, list_with_delimiter, list_with_offset_exclusivity, multipart, multipart_out_of_order,
    multipart_put_part_out_of_order, multipart_race_condition, multipart_with_opts, put_get_attributes,
    put_get_delete_list, put_opts, rename_and_copy, stream_get,
};

fn store() -> AmazonS3 {
    // The endpoint speaks plain HTTP, but the HTTP client wants to know its TLS provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    AmazonS3Builder::from_env()
        .with_allow_http(true)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .build()
        .expect("the AWS_* variables describe a store")
}

#[tokio::test]
async fn every_helper() {
    let store = store();
    put_get_delete_list(&store).await;
    put_get_attributes(&store).await;
    get_opts(&store).await;
    put_opts(&store, true).await;
    stream_get(&store).await;
    list_uses_directories_correctly(&store).await;
    list_with_delimiter(&store).await;
    list_with_offset_exclusivity(&store).await;
    list_paginated(&store, &store).await;
    rename_and_copy(&store).await;
    copy_if_not_exists(&store).await;
    copy_rename_nonexistent_object(&store).await;
    assert!(get_nonexistent_object(&store, None).await.is_err());
    multipart(&store, &store).await;
    multipart_with_opts(&store, &store).await;
    multipart_put_part_out_of_order(&store, &store).await;
    multipart_out_of_order(&store).await;
    multipart_race_condition(&store, true).await;
    let _: &dyn ObjectStore = &store;
}
