//! The condition keys of S3.
//!
//! Source: AWS, "Actions, resources, and condition keys for Amazon S3".

use crate::action::{Action, ActionSet};

/// The keys, in lower case. Some are absent from every request here, so that policies of AWS can be used as they are.
const KEYS: [&str; 46] = [
    "s3:accessgrantsinstancearn",
    "s3:accesspointnetworkorigin",
    "s3:authtype",
    "s3:dataaccesspointaccount",
    "s3:dataaccesspointarn",
    "s3:delimiter",
    "s3:destinationregion",
    "s3:existingjoboperation",
    "s3:existingjobpriority",
    "s3:if-match",
    "s3:if-none-match",
    "s3:inventoryaccessibleoptionalfields",
    "s3:isreplicationpauserequest",
    "s3:jobsuspendedcause",
    "s3:locationconstraint",
    "s3:max-keys",
    "s3:object-lock-legal-hold",
    "s3:object-lock-mode",
    "s3:object-lock-remaining-retention-days",
    "s3:object-lock-retain-until-date",
    "s3:objectcreationoperation",
    "s3:prefix",
    "s3:requestjoboperation",
    "s3:requestjobpriority",
    "s3:requestobjecttagkeys",
    "s3:resourceaccount",
    "s3:signatureage",
    "s3:signatureversion",
    "s3:tlsversion",
    "s3:versionid",
    "s3:x-amz-acl",
    "s3:x-amz-bucket-namespace",
    "s3:x-amz-content-sha256",
    "s3:x-amz-copy-source",
    "s3:x-amz-grant-full-control",
    "s3:x-amz-grant-read",
    "s3:x-amz-grant-read-acp",
    "s3:x-amz-grant-write",
    "s3:x-amz-grant-write-acp",
    "s3:x-amz-metadata-directive",
    "s3:x-amz-object-ownership",
    "s3:x-amz-server-side-encryption",
    "s3:x-amz-server-side-encryption-aws-kms-key-id",
    "s3:x-amz-server-side-encryption-customer-algorithm",
    "s3:x-amz-storage-class",
    "s3:x-amz-website-redirect-location",
];

/// The beginnings of keys that end with the name of a tag.
const OF_TAGS: [&str; 4] = [
    "s3:accesspointtag/",
    "s3:buckettag/",
    "s3:existingobjecttag/",
    "s3:requestobjecttag/",
];

/// The keys of listings. Policies may limit listeners to a prefix, too.
const OF_LISTINGS: [&str; 3] = ["s3:delimiter", "s3:max-keys", "s3:prefix"];

/// Returns true if S3 has this key, or if it is of another service. A key is in lower case.
pub fn is_known(key: &str) -> bool {
    let of_tag = |start: &&str| key.len() > start.len() && key.starts_with(start);
    !key.starts_with("s3:") || KEYS.contains(&key) || OF_TAGS.iter().any(of_tag)
}

/// Returns true if a request for one of these actions can have the key.
pub fn fits(key: &str, actions: ActionSet) -> bool {
    let lists = [
        Action::ListBucket,
        Action::ListBucketMultipartUploads,
        Action::ListBucketVersions,
        Action::ListenBucketNotification,
    ];
    !OF_LISTINGS.contains(&key) || lists.iter().any(|action| actions.has(*action))
}
