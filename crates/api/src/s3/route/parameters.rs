//! Parameters of queries that select operations, and those that do not.

use http::Method;

use crate::s3::error::{S3Error, S3Result};
use crate::s3::target::Target;
use crate::s3::uri::{self, Query};

/// S3's sub-resources: parameters that select another operation.
pub const SUB_RESOURCES: [&str; 47] = [
    "abac",
    "accelerate",
    "acl",
    "analytics",
    "annotation",
    "append",
    "attributes",
    "cors",
    "delete",
    "encryption",
    "intelligent-tiering",
    "inventory",
    "legal-hold",
    "lifecycle",
    "list-type",
    "location",
    "logging",
    "metadataAnnotationTable",
    "metadataConfiguration",
    "metadataInventoryTable",
    "metadataJournalTable",
    "metadataTable",
    "metrics",
    "notification",
    "object-lock",
    "ownershipControls",
    "policy",
    "policyStatus",
    "publicAccessBlock",
    "publicaccessblock",
    "ownershipcontrols",
    "renameObject",
    "replication",
    "requestPayment",
    "restore",
    "retention",
    "select",
    "select-type",
    "session",
    "tagging",
    "torrent",
    "updateObjectEncryption",
    "uploadId",
    "uploads",
    "versioning",
    "versions",
    "website",
];

/// Parameters that name no sub-resource even without a value.
const PLAIN_PARAMETERS: [&str; 20] = [
    "bucket-region",
    "continuation-token",
    "delimiter",
    "encoding-type",
    "fetch-owner",
    "key-marker",
    "marker",
    "max-buckets",
    "max-keys",
    "max-parts",
    "max-uploads",
    "part-number-marker",
    "partNumber",
    "prefix",
    "response-cache-control",
    "response-content-type",
    "start-after",
    "upload-id-marker",
    "versionId",
    "x-id",
];

/// Returns the parameter that names a sub-resource: a known one, or in a request that changes
/// something any unknown one without a value. Reads ignore others as S3 does: links such as
/// `font.eot?iefix` are common.
///
/// # Errors
/// `InvalidArgument` for two of them: one would be ignored.
pub fn sub_resource<'q>(method: &Method, query: &'q Query) -> S3Result<Option<&'q str>> {
    let reads = [Method::GET, Method::HEAD].contains(method);
    let known = |(name, _): &(&str, &str)| SUB_RESOURCES.contains(name);
    let bare = |(name, value): &(&str, &str)| {
        !reads
            && value.is_empty()
            && !PLAIN_PARAMETERS.contains(name)
            && !name.starts_with("response-")
            // A parameter of the signature, or a header.
            && !uri::begins_with(name, "x-amz-")
    };
    let all = || query.iter().filter(known).map(|(name, _)| name);
    // These two say more about a listing and about `select`.
    let mut resources = all().filter(|name| !["list-type", "select-type"].contains(name));
    let Some(first) = resources.next() else {
        let bare = || query.iter().find(bare).map(|(name, _)| name);
        return Ok(all().next().or_else(bare));
    };
    match resources.find(|name| *name != first) {
        Some(other) => {
            let why = format!("Conflicting query string parameters: {first}, {other}");
            Err(S3Error::argument("ResourceType", other, why))
        }
        None => Ok(Some(first)),
    }
}

/// Returns true if a request asks to listen to events of a bucket or of all. The parameter is no
/// sub-resource, so that reads of objects ignore it as any other that S3 does not have.
pub fn listens(method: &Method, target: &Target) -> bool {
    method == Method::GET && target.key.is_none() && target.query.has("events")
}
