//! The condition keys of S3, and those of all of AWS.
//!
//! Source: AWS, "Actions, resources, and condition keys for Amazon S3", "AWS global condition
//! context keys".

use crate::action::{Action, ActionSet};

/// The keys, in lower case. Some are absent from every request here, so that policies of AWS can be
/// used as they are.
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

/// The keys of all services, in lower case. Many are absent from every request here.
const GLOBAL_KEYS: [&str; 48] = [
    "aws:assumedroot",
    "aws:calledvia",
    "aws:calledviafirst",
    "aws:calledvialast",
    "aws:chatbotsourcearn",
    "aws:currenttime",
    "aws:ec2instancesourceprivateipv4",
    "aws:ec2instancesourcevpc",
    "aws:epochtime",
    "aws:federatedprovider",
    "aws:multifactorauthage",
    "aws:multifactorauthpresent",
    "aws:principalaccount",
    "aws:principalarn",
    "aws:principalisawsservice",
    "aws:principalorgid",
    "aws:principalorgpaths",
    "aws:principalservicename",
    "aws:principalservicenameslist",
    "aws:principaltype",
    "aws:referer",
    "aws:requestedregion",
    "aws:resourceaccount",
    "aws:resourceorgid",
    "aws:resourceorgpaths",
    "aws:securetransport",
    "aws:sourceaccount",
    "aws:sourcearn",
    "aws:sourceidentity",
    "aws:sourceip",
    "aws:sourceorgid",
    "aws:sourceorgpaths",
    "aws:sourceowner",
    "aws:sourcevpc",
    "aws:sourcevpcarn",
    "aws:sourcevpce",
    "aws:tagkeys",
    "aws:tokenissuetime",
    "aws:useragent",
    "aws:userid",
    "aws:username",
    "aws:viaawsmcpservice",
    "aws:viaawsservice",
    "aws:vpceaccount",
    "aws:vpceorgid",
    "aws:vpceorgpaths",
    "aws:vpceownerid",
    "aws:vpcsourceip",
];

/// The beginnings of keys that end with the name of a tag.
const OF_TAGS: [&str; 7] = [
    "aws:principaltag/",
    "aws:requesttag/",
    "aws:resourcetag/",
    "s3:accesspointtag/",
    "s3:buckettag/",
    "s3:existingobjecttag/",
    "s3:requestobjecttag/",
];

/// The keys of listings. Policies may limit listeners to a prefix, too.
const OF_LISTINGS: [&str; 3] = ["s3:delimiter", "s3:max-keys", "s3:prefix"];

/// Returns true if S3 has this key or all services have it, or if it is of another service. A key
/// is in lower case.
pub fn is_known(key: &str) -> bool {
    let of_tag = |start: &&str| key.len() > start.len() && key.starts_with(start);
    let is_of_others = !key.starts_with("s3:") && !key.starts_with("aws:");
    is_of_others || KEYS.contains(&key) || GLOBAL_KEYS.contains(&key) || OF_TAGS.iter().any(of_tag)
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
