//! Configurations that no bucket can have: reading one answers as S3 does for a bucket that never
//! had it, because tools read all configurations of a bucket. Writing one is not implemented.

use crate::s3::auth::{Authorised, OnBucket};
use crate::s3::call::Call;
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::respond::{self, Answer};
use crate::s3::route::BucketOp;
use crate::s3::xml::Writer;

/// Answers GetBucketAbac: tags of buckets take no part in the decision.
pub fn abac(_: &Authorised<OnBucket>) -> S3Result<Answer> {
    let mut xml = Writer::new("AbacStatus");
    xml.text("Status", "Disabled");
    Ok(respond::xml(xml))
}

/// Answers GetBucketAccelerateConfiguration.
pub fn accelerate(_: &Authorised<OnBucket>) -> S3Result<Answer> {
    Ok(respond::xml(Writer::new("AccelerateConfiguration")))
}

/// Answers GetBucketLogging.
pub fn logging(_: &Authorised<OnBucket>) -> S3Result<Answer> {
    Ok(respond::xml(Writer::new("BucketLoggingStatus")))
}

/// Answers GetBucketReplication.
pub fn replication(on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let none = S3Error::from(Code::ReplicationConfigurationNotFoundError);
    Err(none.with("BucketName", &on.bucket().name))
}

/// Answers the lists of configurations that have an id, and requests for one of them: there are
/// none.
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
