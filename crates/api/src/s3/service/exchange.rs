//! One request on its way: address, route, signature, then the operation.

use archipel_base::boxed;
use archipel_model::{Cause, Creation, Model};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, header};

use super::Shared;
use crate::iam;
use crate::s3::auth::{self, Caller};
use crate::s3::body::RequestBody;
use crate::s3::call::{Call, Learned};
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::respond::{self, Answer};
use crate::s3::route::{ObjectOp, Operation, refuse_headers, route};
use crate::s3::signed::{signed_with, token};
use crate::s3::sigv4::{Lookup, SignedParts, unsigned_payload};
use crate::s3::target::Target;
use crate::s3::{cors, handlers, hoisted, signer};
use crate::serve::{Peer, Secure};

/// One request on its way to an answer.
pub(super) struct Exchange<'a> {
    pub(super) shared: &'a Shared,
    pub(super) parts: &'a Parts,
    /// For counters and the log.
    pub(super) operation: &'static str,
    pub(super) target: Option<Target>,
    /// For the audit log.
    pub(super) learned: Learned,
    pub(super) request_id: &'a str,
}

impl Exchange<'_> {
    /// Returns the answer, and the body as far as it was read.
    #[boxed]
    pub(super) async fn answer(
        &mut self,
        body: RequestBody,
    ) -> (S3Result<Answer>, Option<RequestBody>) {
        let (parts, rates) = (self.parts, &self.shared.config.rates);
        let peer = parts.extensions.get::<Peer>().map(|peer| peer.0);
        if peer.is_some_and(|address| !rates.admits_address(address)) {
            return (Err(Code::SlowDown.into()), Some(body));
        }
        let domains = &self.shared.config.base_domains;
        let target = match Target::of(&parts.uri, &parts.headers, parts.version, domains) {
            Ok(target) => &*self.target.insert(target),
            Err(error) => return (Err(error), Some(body)),
        };
        if iam::service::is_asked(parts, target) {
            let asked = iam::service::Asked {
                model: &self.shared.model,
                door: &self.shared.iam,
                rates,
                parts,
                target,
                now_ms: self.shared.clock.now_millis(),
                peer,
                secure: parts.extensions.get::<Secure>().is_some(),
                request_id: self.request_id,
            };
            let mut body = body;
            let outcome = Box::pin(iam::service::answer(&asked, &mut body)).await;
            self.operation = outcome.action;
            self.learned = outcome.learned;
            if let Some(cause) = outcome.cause {
                let (request_id, operation) = (self.request_id, outcome.action);
                tracing::error!(request_id, operation, cause, "a request failed");
            }
            return (Ok(outcome.answer), Some(body));
        }
        if parts.method == Method::OPTIONS {
            self.operation = "Preflight";
            return (
                preflight(&self.shared.model, target, &parts.headers),
                Some(body),
            );
        }
        let merged = hoisted::merge(&target.query, &parts.headers);
        let headers = merged.as_deref().unwrap_or(&parts.headers);
        // The error waits for the signature: without one, a client learns nothing else.
        let routed = match &merged {
            Ok(headers) => route(&parts.method, target, headers),
            Err(error) => Err(error.clone()),
        };
        let model = self.shared.model.because(Cause {
            creation: match &routed {
                Ok(Operation::PostObject) => Creation::Post,
                Ok(Operation::Object(ObjectOp::CopyObject)) => Creation::Copy,
                _ => Creation::Put,
            },
            address: peer.map(|peer| peer.to_canonical().to_string()),
            request_id: self.request_id.to_owned(),
            ..Cause::default()
        });
        let mut call = Call::new(
            &model,
            &self.shared.clock,
            &self.shared.config.region,
            target,
            headers,
            body,
        );
        call.peer = peer;
        call.rates = rates.clone();
        call.plain_keys = self.shared.config.plain_keys;
        if parts.extensions.get::<Secure>().is_some() {
            call.scheme = "https";
        }
        if let Ok(operation) = &routed {
            self.operation = operation.name();
        }
        let result = respond_to(self.shared, &mut call, parts, routed).await;
        self.learned = call.learned;
        (result, Some(call.body))
    }
}

/// Verifies the signature first: nobody learns without one what exists.
async fn respond_to(
    shared: &Shared,
    call: &mut Call<'_>,
    parts: &Parts,
    routed: S3Result<Operation>,
) -> S3Result<Answer> {
    let lookup = |id: &str| Ok(shared.model.access_key(id)?);
    let signed = SignedParts {
        method: &parts.method,
        path: &call.target.path,
        query: &call.target.query,
        headers: &parts.headers,
        host: &call.target.host,
    };
    let (now_ms, target) = (call.now_ms(), call.target);
    let session = token(&parts.headers, &call.target.query)?;
    let verify = |lookup: Lookup<'_>| {
        let version_2 = shared.config.signature_v2;
        signer::verify(&shared.verifier, version_2, &signed, target, now_ms, lookup)
    };
    let Some(verified) = signed_with(&shared.model, session, verify).await? else {
        return respond_to_anonymous(shared, call, &lookup, routed).await;
    };
    call.learned.who = Some(verified.key.id.clone());
    let (key, credential) = (&verified.key, verified.credential);
    let caller = Caller::verified(&shared.model, &call.rates, key, credential).await?;
    call.name(&caller);
    let operation = routed?;
    check_headers(call.headers)?;
    call.set_payload(verified.payload, verified.chunks.as_ref())?;
    if let Some(name) = call.target.bucket.as_deref() {
        shared.model.find_bucket_of_key(&verified.key, name).await?;
    }
    handlers::dispatch(call, &caller, operation).await
}

/// Answers a request without a signature. It learns nothing that nobody allowed: neither whether an
/// operation is implemented nor whether a bucket exists.
async fn respond_to_anonymous(
    shared: &Shared,
    call: &mut Call<'_>,
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
                .map(|name| shared.model.bucket(name));
            // The cache only: anybody can send such requests, and they must cost nothing.
            if bucket.transpose()?.flatten().is_none() {
                return Err(Code::AccessDenied.into());
            }
            check_headers(call.headers)?;
            call.set_payload(unsigned_payload(call.headers)?, None)?;
            handlers::dispatch(call, &Caller::anonymous(), operation).await
        }
        Err(_) => Err(Code::AccessDenied.into()),
    }
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

/// Answers a browser's preflight. A bucket that does not exist gets the same answer as one without
/// a configuration.
fn preflight(model: &Model, target: &Target, headers: &HeaderMap) -> S3Result<Answer> {
    if !cors::is_preflight(&Method::OPTIONS, headers) {
        let why = match headers.contains_key(header::ORIGIN) {
            true => "Invalid Access-Control-Request-Method: null",
            false => "Insufficient information. Origin request header needed.",
        };
        return Err(S3Error::new(Code::BadRequest, why));
    }
    let bucket = target.bucket.as_deref().map(|name| model.bucket(name));
    let bucket = bucket.transpose()?.flatten();
    let rules = bucket.as_ref().map_or(&[][..], |bucket| &bucket.cors);
    let mut answer = respond::empty(StatusCode::OK);
    *answer.headers_mut() = cors::preflight(rules, headers)?;
    Ok(answer)
}
