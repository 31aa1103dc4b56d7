//! The names of buckets and objects in policies: ARNs.
//!
//! Source: AWS, "Policy resources for Amazon S3".

/// The beginning of the ARNs of buckets and objects.
const ARN: &str = "arn:aws:s3:::";

/// Returns the ARN of a bucket.
pub fn bucket_arn(bucket: &str) -> String {
    format!("{ARN}{bucket}")
}

/// Returns the ARN of an object, or of its bucket if there is no key.
pub fn resource_arn(bucket: &str, key: Option<&str>) -> String {
    match key {
        Some(key) => format!("{ARN}{bucket}/{key}"),
        None => bucket_arn(bucket),
    }
}

/// Returns the bucket that an ARN names, or `BUCKET/KEY`; `None` if the ARN is of another service.
pub fn resource_of_arn(arn: &str) -> Option<&str> {
    arn.strip_prefix(ARN)
}
