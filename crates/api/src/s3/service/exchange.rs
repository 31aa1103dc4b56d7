//! One request on its way: address, route, signature, then the operation.

use archipel_model::{Cause, Creation};
use http::request::Parts;
use http::{HeaderMap, Method, header};

use super::Shared;
use crate::iam;
use crate::s3::auth::{self, Caller};
use crate::s3::body::RequestBody;
use crate::s3::call::Call;
use crate::s3::endpoint::{Learned, RequestHead, Responded};
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::post::FormReader;
use crate::s3::respond::Answer;
use crate::s3::route::{ObjectOp, Operation, refuse_headers, route};
use crate::s3::sigv4::{Lookup, unsigned_payload};
use crate::s3::target::Target;
use crate::s3::{handlers, hoisted};

/// One request on its way to an answer.
pub(super) struct Exchange<'a> {
    pub(super) shared: &'a Shared,
    pub(super) head: &'a RequestHead,
    pub(super) target: Option<Target>,
    pub(super) learned: &'a mut Learned,
}

impl Exchange<'_> {
    /// Returns the answer, and the body as far as it was read.
    pub(super) async fn answer(&mut self, mut body: Box<RequestBody>) -> Responded {
        let (shared, parts) = (self.shared, &*self.head.parts);
        let domains = &shared.config.base_domains;
        let target = match Target::of(&parts.uri, &parts.headers, parts.version, domains) {
            Ok(target) => &*self.target.insert(target),
            Err(error) => return (Err(error), Some(*body)),
        };
        self.learned.bucket.clone_from(&target.bucket);
        self.learned.key.clone_from(&target.key);
        if iam::service::is_asked(parts, target) {
            let asked = iam::service::Asked {
                model: &shared.frontend.model,
                apis: &shared.iam,
                rates: &shared.frontend.rates,
                head: self.head,
                target,
                now_ms: shared.clock.now_millis(),
            };
            let answer = iam::service::answer(&asked, &mut body, self.learned);
            return (Ok(Box::pin(answer).await), Some(*body));
        }
        if parts.method == Method::OPTIONS {
            self.learned.operation = "Preflight";
            let answer = shared.frontend.preflight(target, &parts.headers);
            return (answer, Some(*body));
        }
        let merged = hoisted::merge(&target.query, &parts.headers);
        let headers = merged.as_deref().unwrap_or(&parts.headers);
        // The error waits for the signature: without one, a client learns nothing else.
        let routed = match &merged {
            Ok(headers) => route(&parts.method, target, headers),
            Err(error) => Err(error.clone()),
        };
        if let Ok(operation) = &routed {
            self.learned.operation = operation.name();
        }
        let model = shared.frontend.model.with_cause(Cause {
            host_id: shared.frontend.host_id.clone(),
            ..cause(self.head, &routed)
        });
        let mut call = Call::new(
            &model,
            &shared.clock,
            &shared.config.region,
            target,
            headers,
            *body,
            self.learned,
        );
        call.peer = self.head.peer();
        call.rates = shared.frontend.rates.clone();
        call.plain_keys = shared.config.plain_keys;
        if self.head.is_secure() {
            call.scheme = "https";
        }
        let result = respond_to(shared, &mut call, parts, routed).await;
        (result, Some(call.body))
    }
}

/// Returns the cause of the changes that a request makes, for events.
fn cause(head: &RequestHead, routed: &S3Result<Operation>) -> Cause {
    Cause {
        creation: match routed {
            Ok(Operation::PostObject) => Creation::Post,
            Ok(Operation::Object(ObjectOp::CopyObject)) => Creation::Copy,
            _ => Creation::Put,
        },
        address: head.peer().map(|peer| peer.to_canonical().to_string()),
        request_id: head.id.clone(),
        ..Cause::default()
    }
}

/// Verifies the signature first: nobody learns without one what exists.
async fn respond_to(
    shared: &Shared,
    call: &mut Call<'_>,
    parts: &Parts,
    routed: S3Result<Operation>,
) -> S3Result<Answer> {
    let version_2 = shared.config.signature_v2;
    let signed = call.identify(parts, &shared.verifier, version_2).await?;
    let Some((caller, signer)) = signed else {
        let lookup = |id: &str| Ok(shared.frontend.model.access_key(id)?);
        return respond_to_anonymous(shared, call, parts, &lookup, routed).await;
    };
    let operation = routed?;
    check_headers(call.headers)?;
    call.accept(&signer).await?;
    handlers::dispatch(call, &caller, operation).await
}

/// Answers a request without a signature. It learns nothing that nobody allowed: neither whether an
/// operation is implemented nor whether a bucket exists.
async fn respond_to_anonymous(
    shared: &Shared,
    call: &mut Call<'_>,
    parts: &Parts,
    lookup: Lookup<'_>,
    routed: S3Result<Operation>,
) -> S3Result<Answer> {
    match routed {
        Ok(Operation::PostObject) => {
            let version_2 = shared.config.signature_v2;
            handlers::post_object(call, &shared.verifier, version_2, lookup).await
        }
        Ok(operation) => {
            refuse_unsigned(operation)?;
            let bucket = call
                .target
                .bucket
                .as_deref()
                .map(|name| shared.frontend.model.bucket(name));
            // The cache only: anybody can send such requests, and they must cost nothing.
            if bucket.transpose()?.flatten().is_none() {
                return Err(Code::AccessDenied.into());
            }
            check_headers(call.headers)?;
            call.set_payload(unsigned_payload(call.headers)?, None)?;
            handlers::dispatch(call, &Caller::anonymous(), operation).await
        }
        // A form that is sent to the address of an object, not of its bucket, or that names a
        // version: the author of the page should see why.
        Err(error)
            if matches!(error.code(), Code::MethodNotAllowed | Code::InvalidArgument)
                && is_form(parts) =>
        {
            Err(error)
        }
        Err(_) => Err(Code::AccessDenied.into()),
    }
}

/// Returns true for a form, as browsers send it.
fn is_form(parts: &Parts) -> bool {
    let kind = parts.headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok());
    parts.method == Method::POST && kind.is_some_and(|kind| FormReader::new(kind).is_ok())
}

/// Refuses operations that S3 takes with a signature only, whatever policies allow.
fn refuse_unsigned(operation: Operation) -> S3Result<()> {
    let why = match operation {
        Operation::Object(ObjectOp::CreateMultipartUpload) => {
            "Anonymous users cannot initiate multipart uploads. Please authenticate."
        }
        Operation::Object(ObjectOp::CopyObject | ObjectOp::UploadPartCopy) => {
            "Anonymous users cannot copy objects. Please authenticate."
        }
        _ => return Ok(()),
    };
    Err(S3Error::new(Code::AccessDenied, why))
}

fn check_headers(headers: &HeaderMap) -> S3Result<()> {
    let pairs = headers.iter();
    refuse_headers(pairs.map(|(name, value)| (name.as_str(), value.as_bytes())))?;
    auth::check_headers(headers)
}
