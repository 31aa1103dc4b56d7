//! Configurations that no bucket can have: reading one answers as S3 does for a bucket that never
//! had it, because tools read all configurations of a bucket. Requests to turn one
//! off succeed, because it is off. Writing a configuration is not implemented. No object is in an
//! archive either.

use http::StatusCode;

use crate::s3::auth::{Authorised, OnAccount, OnBucket, OnObject};
use crate::s3::call::Call;
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::respond::{self, Answer};
use crate::s3::route::BucketOp;
use crate::s3::xml::{self, Writer};

/// The largest document.
const MAX_DOCUMENT_BYTES: usize = 64 << 10;

/// The state of transfer acceleration that is turned off.
const SUSPENDED: &str = "Suspended";

/// Answers GetPublicAccessBlock of the account: each bucket has its own, and there is none for all
/// of them.
pub fn account_block(_: &Authorised<OnAccount>) -> S3Result<Answer> {
    Err(Code::NoSuchPublicAccessBlockConfiguration.into())
}

/// Answers GetBucketAbac: tags of buckets take no part in the decision.
pub fn abac(_: &Authorised<OnBucket>) -> S3Result<Answer> {
    let mut xml = Writer::new("AbacStatus");
    xml.text("Status", "Disabled");
    Ok(respond::xml(xml))
}

/// Answers PutBucketAbac, which can only turn it off.
pub async fn put_abac(call: &mut Call<'_>, _: &Authorised<OnBucket>) -> S3Result<Answer> {
    let document = call.document(MAX_DOCUMENT_BYTES).await?;
    let root = xml::parse(&document, "AbacStatus")?;
    root.only(&["Status"])?;
    match root.required_text("Status")?.trim() {
        "Disabled" => Ok(respond::empty(StatusCode::OK)),
        "Enabled" => Err(S3Error::not_implemented("Access by tags of a bucket")),
        _ => Err(Code::MalformedXML.into()),
    }
}

/// Answers GetBucketAccelerateConfiguration. The state is told only if it was set once, as on AWS.
pub fn accelerate(on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let mut xml = Writer::new("AccelerateConfiguration");
    if on.bucket().suspends_acceleration {
        xml.text("Status", SUSPENDED);
    }
    Ok(respond::xml(xml))
}

/// Answers PutBucketAccelerateConfiguration, which can only turn acceleration off.
pub async fn put_accelerate(call: &mut Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let document = call.document(MAX_DOCUMENT_BYTES).await?;
    let root = xml::parse(&document, "AccelerateConfiguration")?;
    root.only(&["Status"])?;
    match root.required_text("Status")?.trim() {
        SUSPENDED => {
            call.model.suspend_acceleration(on.bucket()).await?;
            Ok(respond::empty(StatusCode::OK))
        }
        "Enabled" => Err(S3Error::not_implemented("Transfer acceleration")),
        _ => Err(Code::MalformedXML.into()),
    }
}

/// Answers requests to read and to delete the configuration of metadata tables, of both versions.
pub fn metadata(on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let none = Code::MetadataConfigurationNotFound;
    Err(S3Error::of_bucket(none, &on.bucket().name))
}

/// Answers RestoreObject as S3 does for an object that is in no archive.
pub async fn restore_object(call: &mut Call<'_>, on: &Authorised<OnObject>) -> S3Result<Answer> {
    let document = call.document(MAX_DOCUMENT_BYTES).await?;
    xml::parse(&document, "RestoreRequest")?;
    on.head(call).await?;
    let why = "Restore is not allowed for the object's current storage class";
    Err(S3Error::new(Code::InvalidObjectState, why))
}

/// Answers GetBucketLogging.
pub fn logging(_: &Authorised<OnBucket>) -> S3Result<Answer> {
    Ok(respond::xml(Writer::new("BucketLoggingStatus")))
}

/// Answers PutBucketLogging. An empty document disables logging, which is never enabled.
pub async fn put_logging(call: &mut Call<'_>, _: &Authorised<OnBucket>) -> S3Result<Answer> {
    let document = call.document(MAX_DOCUMENT_BYTES).await?;
    let root = xml::parse(&document, "BucketLoggingStatus")?;
    match root.only(&["LoggingEnabled"])?.is_empty() {
        true => Ok(respond::empty(StatusCode::OK)),
        false => Err(S3Error::not_implemented("Logging of a bucket")),
    }
}

/// Answers GetBucketReplication.
pub fn replication(on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let none = Code::ReplicationConfigurationNotFoundError;
    Err(S3Error::of_bucket(none, &on.bucket().name))
}

/// Answers DeleteBucketReplication. There is none, and S3 confirms the deletion all the same.
pub fn delete_replication(_: &Authorised<OnBucket>) -> Answer {
    respond::empty(StatusCode::NO_CONTENT)
}

/// Answers deletions of configurations that have an id: there are none.
pub fn delete(call: &Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    match call.target.query.single("id")? {
        Some(_) => Err(no_configuration(on)),
        None => Err(S3Error::argument(
            "id",
            "",
            "The id of a configuration is missing.",
        )),
    }
}

fn no_configuration(on: &Authorised<OnBucket>) -> S3Error {
    S3Error::of_bucket(Code::NoSuchConfiguration, &on.bucket().name)
}

/// Answers the lists of configurations that have an id, and requests for one of them: there are
/// none.
pub fn list(call: &Call<'_>, on: &Authorised<OnBucket>, op: BucketOp) -> S3Result<Answer> {
    if call.target.query.single("id")?.is_some() {
        return Err(no_configuration(on));
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
