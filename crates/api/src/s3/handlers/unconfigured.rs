//! Configurations that no bucket can have: reading one answers as S3 does for a bucket that never
//! had it, because tools read all configurations of a bucket. Writing one is not implemented.

use crate::s3::auth::{Authorised, OnBucket};
use crate::s3::call::Call;
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::respond::{self, Answer};
use crate::s3::route::BucketOp;
use crate::s3::xml::Writer;

/// GetBucketAbac: tags of buckets take no part in the decision.
pub fn abac(_: &Authorised<OnBucket>) -> S3Result<Answer> {
    let mut xml = Writer::new("AbacStatus");
    xml.text("Status", "Disabled");
    Ok(respond::xml(xml))
}

/// GetBucketAccelerateConfiguration.
pub fn accelerate(_: &Authorised<OnBucket>) -> S3Result<Answer> {
    Ok(respond::xml(Writer::new("AccelerateConfiguration")))
}

/// GetBucketLogging.
pub fn logging(_: &Authorised<OnBucket>) -> S3Result<Answer> {
    Ok(respond::xml(Writer::new("BucketLoggingStatus")))
}

/// GetBucketReplication.
pub fn replication(on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let none = S3Error::from(Code::ReplicationConfigurationNotFoundError);
    Err(none.with("BucketName", &on.bucket().name))
}

/// The lists of configurations that have an id; with an id, the configuration itself.
pub fn list(call: &Call<'_>, on: &Authorised<OnBucket>, op: BucketOp) -> S3Result<Answer> {
    if call.target.query.single("id")?.is_some() {
        let none = S3Error::from(Code::NoSuchConfiguration);
        return Err(none.with("BucketName", &on.bucket().name));
    }
    let mut xml = Writer::new(match op {
        BucketOp::ListBucketAnalyticsConfigurations => "ListBucketAnalyticsConfigurationResult",
        BucketOp::ListBucketInventoryConfigurations => "ListInventoryConfigurationsResult",
        BucketOp::ListBucketMetricsConfigurations => "ListMetricsConfigurationsResult",
        _ => "ListBucketIntelligentTieringConfigurationsOutput",
    });
    xml.value("IsTruncated", false);
    Ok(respond::xml(xml))
}
