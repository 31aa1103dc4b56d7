//! Elements of error documents that repeat what the request said.
//!
//! Source: AWS, "Error responses" in the S3 API reference.

use http::header;
use http::request::Parts;

use super::error::{Code, S3Error};
use super::precondition;
use super::target::Target;

/// Adds the elements and headers that errors of this code have on S3, unless the error has them.
pub fn explain(error: S3Error, request: &Parts, target: Option<&Target>) -> S3Error {
    let parameter = |name| Some(target?.query.get(name)?.to_owned());
    match error.code() {
        Code::AccessForbidden => {
            let method = request.headers.get(header::ACCESS_CONTROL_REQUEST_METHOD);
            let method = method.and_then(|value| value.to_str().ok());
            error
                .or_with("Method", method.map(str::to_owned))
                .or_with("ResourceType", Some(place(target).0.to_owned()))
        }
        Code::InvalidDigest => {
            let digest = request.headers.get("content-md5");
            let digest = digest.and_then(|value| value.to_str().ok());
            error.or_with("Content-MD5", digest.map(str::to_owned))
        }
        Code::MethodNotAllowed => not_allowed(error, request, target),
        Code::NoSuchUpload => error.or_with("UploadId", parameter("uploadId")),
        Code::NoSuchVersion => {
            let version = parameter("versionId");
            let key = target.and_then(|target| target.key.clone());
            let key = key.filter(|_| version.is_some());
            error.or_with("Key", key).or_with("VersionId", version)
        }
        Code::PreconditionFailed => {
            failed_because(error, precondition::of_write_name(&request.headers))
        }
        _ => error,
    }
}

/// Adds the header with the condition of a write to the error that the condition failed.
pub fn failed_because(error: S3Error, header: Option<&'static str>) -> S3Error {
    match error.code() {
        Code::PreconditionFailed => error.or_with("Condition", header.map(str::to_owned)),
        _ => error,
    }
}

/// Returns the kind of resource that an address names, and the methods for it.
fn place(target: Option<&Target>) -> (&'static str, &'static str) {
    match target.map(|target| (&target.bucket, &target.key)) {
        Some((Some(_), Some(_))) => ("OBJECT", "GET, HEAD, PUT, DELETE"),
        Some((Some(_), None)) => ("BUCKET", "GET, HEAD, PUT, DELETE, POST"),
        _ => ("SERVICE", "GET"),
    }
}

fn not_allowed(error: S3Error, request: &Parts, target: Option<&Target>) -> S3Error {
    let (kind, allowed) = place(target);
    let error = error
        .or_with("Method", Some(request.method.to_string()))
        .or_with("ResourceType", Some(kind.to_owned()));
    match error.headers().iter().any(|(name, _)| *name == "allow") {
        true => error,
        false => error.with_header("allow", allowed),
    }
}
