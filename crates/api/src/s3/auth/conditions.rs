//! The condition keys of a request, and the actions that its headers ask for.
//!
//! Source: AWS, "Actions, resources, and condition keys for Amazon S3" and "AWS global condition
//! context keys".

use std::net::IpAddr;

use archipel_access::{ACCOUNT, Acl, Action, Context};
use archipel_model::GivenVersion;
use archipel_model::identity::Kind;
use http::{HeaderMap, header};

use super::Caller;
use super::new_bucket::describe_tags;
use crate::s3::acl;
use crate::s3::call::{Call, single_header};
use crate::s3::copy_source::CopySourceName;
use crate::s3::endpoint::RequestHead;
use crate::s3::error::S3Result;
use crate::s3::lock;
use crate::s3::respond;
use crate::s3::route::ObjectOp;
use crate::s3::s3_control;
use crate::s3::tagging;

/// The beginning of the keys for tags that the object has.
pub(super) const EXISTING_TAG: &str = "s3:ExistingObjectTag/";

/// Headers whose values are condition keys: `s3:` and the name.
const HEADERS: [&str; 13] = [
    "x-amz-acl",
    "x-amz-content-sha256",
    "x-amz-grant-full-control",
    "x-amz-grant-read",
    "x-amz-grant-read-acp",
    "x-amz-grant-write",
    "x-amz-grant-write-acp",
    "x-amz-metadata-directive",
    "x-amz-object-ownership",
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-customer-algorithm",
    "x-amz-storage-class",
    "x-amz-website-redirect-location",
];

/// Those of them that describe an object whose upload they begin. The requests that go on with the
/// upload do not repeat them.
const OF_UPLOADS: [&str; 9] = [
    "x-amz-acl",
    "x-amz-grant-full-control",
    "x-amz-grant-read",
    "x-amz-grant-read-acp",
    "x-amz-grant-write",
    "x-amz-grant-write-acp",
    "x-amz-server-side-encryption",
    "x-amz-storage-class",
    "x-amz-website-redirect-location",
];

/// The header with the source of a copy.
const COPY_SOURCE: &str = "x-amz-copy-source";

/// Parameters of listings that are condition keys: `s3:` and the name.
const PARAMETERS: [&str; 3] = ["prefix", "delimiter", "max-keys"];

/// Returns what an upload remembers of the headers that began it, for policies about the requests
/// that go on with it.
pub fn of_upload(headers: &HeaderMap) -> Vec<(String, String)> {
    let asked = OF_UPLOADS
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), text_of(headers, name)?.to_owned())));
    asked.collect()
}

/// Refuses headers that are condition keys and could be read in two ways, so that a policy never
/// decides about another value than the one that takes effect.
///
/// # Errors
/// [`Code::InvalidArgument`](crate::s3::error::Code::InvalidArgument) if one is repeated or not
/// ASCII.
pub fn check_headers(headers: &HeaderMap) -> S3Result<()> {
    for name in HEADERS {
        single_header(headers, name)?;
    }
    Ok(())
}

/// Returns the value of a [checked](check_headers) header, as operations read it.
fn text_of<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    single_header(headers, name).ok().flatten()
}

/// Returns the condition keys that describe a caller, also those of its session.
pub(crate) fn of_caller(caller: &Caller) -> Context {
    let mut context = Context::of(caller.principal());
    let Some(subject) = caller.subject() else {
        return context;
    };
    // No service of AWS asks here, for itself or for others.
    context.set("aws:PrincipalIsAWSService", "false");
    context.set("aws:ViaAWSService", "false");
    let of_identity = match subject.kind() {
        Kind::Key => None,
        Kind::User(user) => Some(&user.tags),
        Kind::Role { role, .. } => Some(&role.tags),
    };
    // The tags of a session replace those of its role.
    let of_session = subject.session().map(|session| &session.tags);
    for (name, value) in of_identity.into_iter().chain(of_session).flatten() {
        context.set(&format!("aws:PrincipalTag/{name}"), value);
    }
    let Some(session) = subject.session() else {
        return context;
    };
    context.set("aws:TokenIssueTime", respond::iso_time(session.issued_ms));
    // Only temporary credentials can tell of a second factor, and these never have one.
    context.set("aws:MultiFactorAuthPresent", "false");
    if let Some(provider) = &session.provider {
        let arn = archipel_access::principal::provider_arn(&provider.name);
        context.set("aws:FederatedProvider", arn);
    }
    context
}

/// The resource that is decided about.
#[derive(Clone, Copy, Debug)]
pub(super) enum On {
    /// A bucket, or what is no bucket yet.
    Bucket,
    /// A key, and the version of it that the request acts on, if it names one.
    Object(Option<GivenVersion>),
}

/// Returns the condition keys of a request.
pub(super) fn of(call: &Call<'_>, caller: &Caller, on: On) -> Context {
    let around = Surroundings {
        now_ms: call.now_ms(),
        secure: call.scheme == "https",
        peer: call.peer,
        region: call.region,
        headers: call.headers,
    };
    let mut context = of_surroundings(caller, &around);
    if let Some(creates) = call.creates {
        context.set("s3:ObjectCreationOperation", creates.to_string());
    }
    for (key, name) in [
        ("s3:if-match", header::IF_MATCH),
        ("s3:if-none-match", header::IF_NONE_MATCH),
    ] {
        let value = call.headers.get(name);
        if let Some(value) = value.and_then(|value| value.to_str().ok()) {
            context.set(key, value);
        }
    }
    for name in HEADERS {
        if let Some(value) = asked(call, name) {
            context.set(&format!("s3:{name}"), value);
        }
    }
    // All spellings of a source are one value, so that no spelling evades a condition.
    if let Some(source) = asked(call, COPY_SOURCE).and_then(CopySourceName::parse) {
        let bucket = super::named(call.model, caller, &source.bucket)
            .ok()
            .flatten();
        let bucket = bucket.map_or(source.bucket, |bucket| bucket.name.clone());
        let value = format!("{bucket}/{}", source.key);
        context.set("s3:x-amz-copy-source", value);
    }
    match on {
        On::Object(version) => {
            if let Some(GivenVersion::Id(id)) = version {
                context.set("s3:versionid", id.to_string());
            }
            let headers = call.described_by();
            lock::describe(&mut context, headers, call.asked_lock, call.now_ms());
        }
        On::Bucket => describe_bucket(call, &mut context),
    }
    describe_object_tags(call, &mut context);
    context
}

/// Returns what the request asks for in a header, or what the one asked for that began its upload.
/// A header that counts only there does not count again.
fn asked<'c>(call: &'c Call<'_>, name: &str) -> Option<&'c str> {
    match &call.begun {
        Some(upload) if OF_UPLOADS.contains(&name) => {
            let found = upload.asked.iter().find(|(asked, _)| asked == name);
            found.map(|(_, value)| value.as_str())
        }
        _ => text_of(call.described_by(), name),
    }
}

/// Sets the condition keys of requests about a bucket.
fn describe_bucket(call: &Call<'_>, context: &mut Context) {
    for name in PARAMETERS {
        if let Some(value) = call.target.query.get(name) {
            context.set(&format!("s3:{name}"), value);
        }
    }
    // Any other request may have a parameter of that name, which says nothing.
    if call.target.control {
        if let Some(tags) = &call.tags {
            describe_tags(context, tags);
        } else if let Ok(removed) = s3_control::removed(&call.target.query) {
            context.set_all("aws:TagKeys", removed);
        }
    }
}

/// Sets the condition keys for the tags that a request gives to an object.
fn describe_object_tags(call: &Call<'_>, context: &mut Context) {
    let headers = call.described_by();
    // A copy takes the tags of its source, whatever the header says, unless it asks for others.
    let is_copy = headers.contains_key(COPY_SOURCE);
    let takes_header = !is_copy || tagging::replaces(headers).unwrap_or_default();
    let of_header = asked(call, tagging::TAGGING).filter(|_| takes_header);
    let of_upload = call.begun.as_ref().map(|meta| &meta.tags);
    let known = call
        .tags
        .as_ref()
        .or(of_upload.filter(|tags| !tags.is_empty()));
    if known.is_some() || of_header.is_some() {
        let tags = match known {
            Some(tags) => tags.clone(),
            None => tagging::of_headers(headers).unwrap_or_default(),
        };
        for (name, value) in &tags {
            context.add(&format!("s3:RequestObjectTag/{name}"), value);
        }
        let names = tags.into_iter().map(|(name, _)| name);
        context.set_all("s3:RequestObjectTagKeys", names);
    }
}

/// The facts of a request that do not depend on what it asks for.
pub(crate) struct Surroundings<'a> {
    /// The time.
    pub now_ms: u64,
    /// True if the request came over TLS.
    pub secure: bool,
    /// The client's address, if it is known.
    pub peer: Option<IpAddr>,
    /// The region that is asked.
    pub region: &'a str,
    /// The headers.
    pub headers: &'a HeaderMap,
}

/// Returns the condition keys of a caller and its surroundings.
pub(crate) fn of_surroundings(caller: &Caller, around: &Surroundings<'_>) -> Context {
    let mut context = of_caller(caller);
    around.describe(&mut context);
    // All buckets are in one account.
    context.set("s3:ResourceAccount", ACCOUNT);
    if let Some(credential) = caller.credential() {
        context.set("s3:signatureversion", credential.version);
        context.set("s3:authType", credential.kind);
        if let Some(age) = credential.age_ms {
            context.set("s3:signatureAge", age.to_string());
        }
    }
    context
}

impl<'a> Surroundings<'a> {
    /// Returns the surroundings of a request to a region.
    pub fn of(head: &'a RequestHead, now_ms: u64, region: &'a str) -> Surroundings<'a> {
        Surroundings {
            now_ms,
            secure: head.is_secure(),
            peer: head.peer(),
            region,
            headers: &head.parts.headers,
        }
    }

    /// Sets the condition keys that do not depend on the caller.
    pub fn describe(&self, context: &mut Context) {
        context.set("aws:CurrentTime", respond::iso_time(self.now_ms));
        context.set("aws:EpochTime", (self.now_ms / 1000).to_string());
        context.set("aws:RequestedRegion", self.region);
        context.set("aws:ResourceAccount", ACCOUNT);
        context.set("aws:SecureTransport", self.secure.to_string());
        if let Some(peer) = self.peer {
            context.set("aws:SourceIp", peer.to_canonical().to_string());
        }
        for (key, name) in [
            ("aws:Referer", header::REFERER),
            ("aws:UserAgent", header::USER_AGENT),
        ] {
            let value = self.headers.get(name);
            if let Some(value) = value.and_then(|value| value.to_str().ok()) {
                context.set(key, value);
            }
        }
    }
}

/// Returns what `s3:ObjectCreationOperation` says of an operation.
pub(crate) fn creates(op: ObjectOp) -> Option<bool> {
    use ObjectOp as O;
    match op {
        O::CompleteMultipartUpload | O::CopyObject | O::PutObject => Some(true),
        O::CreateMultipartUpload | O::UploadPart | O::UploadPartCopy => Some(false),
        _ => None,
    }
}

/// Returns true if AWS tells the tags of the object to policies that are asked about the action.
pub(super) fn knows_existing_tags(action: Action) -> bool {
    use Action as A;
    matches!(
        action,
        A::DeleteObjectTagging
            | A::DeleteObjectVersionTagging
            | A::GetObject
            | A::GetObjectAcl
            | A::GetObjectAttributes
            | A::GetObjectTagging
            | A::GetObjectVersion
            | A::GetObjectVersionAcl
            | A::GetObjectVersionAttributes
            | A::GetObjectVersionTagging
            | A::PutObjectAcl
            | A::PutObjectTagging
            | A::PutObjectVersionAcl
            | A::PutObjectVersionTagging
    )
}

/// Returns the further actions that headers of an operation ask for.
pub(super) fn actions_of_headers(call: &Call<'_>, op: ObjectOp) -> S3Result<Vec<Action>> {
    let headers = call.described_by();
    let mut actions = Vec::new();
    let is_conditional = matches!(
        op,
        ObjectOp::CompleteMultipartUpload
            | ObjectOp::CopyObject
            | ObjectOp::DeleteObject
            | ObjectOp::PutObject
    );
    // Of a deletion, S3 documents that the condition "*" needs no right to read.
    let needs_none = op == ObjectOp::DeleteObject
        && single_header(headers, "if-match").is_ok_and(|tag| tag == Some("*"));
    // The condition tells what the object is. That of a form is in a header of the request.
    if is_conditional && call.headers.contains_key(header::IF_MATCH) && !needs_none {
        actions.push(
            call.version()?
                .map_or(Action::GetObject, |_| Action::GetObject.of_version()),
        );
    }
    if !op.makes_object() {
        return Ok(actions);
    }
    // A canned list that grants nothing changes nothing.
    let canned = single_header(headers, acl::HEADER)?;
    let private = canned.map(|name| Acl::of_canned(name).is_some_and(|acl| acl.is_private()));
    if private == Some(false) || acl::grants(headers).is_some() {
        actions.push(Action::PutObjectAcl);
    }
    let tags = single_header(headers, tagging::TAGGING)?;
    if tags.is_some_and(|tags| !tags.is_empty()) || (call.tags.is_some() && op.makes_object()) {
        actions.push(Action::PutObjectTagging);
    }
    let lock = lock::of_headers(headers, call.now_ms())?;
    if lock.retention.is_some() {
        actions.push(Action::PutObjectRetention);
    }
    if lock.legal_hold.is_some() {
        actions.push(Action::PutObjectLegalHold);
    }
    Ok(actions)
}
