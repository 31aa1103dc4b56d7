//! The operation that a request asks for.

use std::str::FromStr;

use archipel_access::Action;
use http::Method;

use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::hoisted;
use crate::s3::target::Target;
use crate::s3::uri::{Query, begins_with};

/// An operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    ReadItem,
    PollItem,
    InsertItem,
    DeleteItem,
    ReadIndex,
    InsertBatch,
    ReadBatch,
    DeleteBatch,
    PollRange,
}

use Operation::*;

impl Operation {
    /// Returns the name, for counters and the log.
    pub fn name(self) -> &'static str {
        match self {
            ReadItem => "ReadItem",
            PollItem => "PollItem",
            InsertItem => "InsertItem",
            DeleteItem => "DeleteItem",
            ReadIndex => "ReadIndex",
            InsertBatch => "InsertBatch",
            ReadBatch => "ReadBatch",
            DeleteBatch => "DeleteBatch",
            PollRange => "PollRange",
        }
    }

    /// Returns the action that must be granted on the bucket.
    pub fn action(self) -> Action {
        match self {
            ReadItem | PollItem | ReadIndex | ReadBatch | PollRange => Action::GetObject,
            InsertItem | DeleteItem | InsertBatch | DeleteBatch => Action::PutObject,
        }
    }

    /// Returns the parameters that the operation has.
    fn parameters(self) -> &'static [&'static str] {
        match self {
            ReadItem | InsertItem | DeleteItem => &["sort_key"],
            PollItem => &["sort_key", "causality_token", "timeout"],
            ReadIndex => &["prefix", "start", "end", "limit", "reverse"],
            InsertBatch => &[],
            ReadBatch => &["search"],
            DeleteBatch => &["delete"],
            PollRange => &["poll_range"],
        }
    }
}

/// Returns the operation of a request.
///
/// # Errors
/// [`Code::MethodNotAllowed`] with the methods for the address, [`Code::InvalidArgument`] for a
/// parameter that the operation does not have.
pub fn route(method: &Method, target: &Target) -> S3Result<Operation> {
    let not_allowed =
        || S3Error::from(Code::MethodNotAllowed).with_header("allow", methods(target));
    if target.control {
        return Err(not_allowed());
    }
    let query = &target.query;
    let is_search = method.as_str() == "SEARCH";
    let is_post = *method == Method::POST;
    let operation = match (&target.bucket, &target.key) {
        (None, _) => None,
        (Some(_), None) => match *method {
            Method::GET => Some(ReadIndex),
            Method::POST if query.has("search") => Some(ReadBatch),
            Method::POST if query.has("delete") => Some(DeleteBatch),
            Method::POST => Some(InsertBatch),
            _ => is_search.then_some(ReadBatch),
        },
        (Some(_), Some(_)) => match *method {
            Method::GET if query.has("causality_token") => Some(PollItem),
            Method::GET => Some(ReadItem),
            Method::PUT => Some(InsertItem),
            Method::DELETE => Some(DeleteItem),
            _ => ((is_post || is_search) && query.has("poll_range")).then_some(PollRange),
        },
    };
    let operation = operation.ok_or_else(not_allowed)?;
    check(query, operation)?;
    Ok(operation)
}

/// Returns the methods for an address. Without a bucket there are none.
fn methods(target: &Target) -> &'static str {
    let has = |name| target.query.has(name);
    match (&target.bucket, &target.key) {
        _ if target.control => "",
        (None, _) => "",
        (Some(_), Some(_)) if has("poll_range") => "POST, SEARCH",
        (Some(_), Some(_)) => "GET, PUT, DELETE",
        (Some(_), None) if has("search") => "POST, SEARCH",
        (Some(_), None) if has("delete") => "POST",
        (Some(_), None) => "GET, POST, SEARCH",
    }
}

/// Refuses parameters that mean nothing, and headers that a client moved into the query. Other
/// parameters of presigned addresses are for the signature.
fn check(query: &Query, operation: Operation) -> S3Result<()> {
    for (name, _) in query.iter() {
        let known = operation.parameters().contains(&name);
        let of_signature =
            begins_with(name, "x-amz-") && !hoisted::is_header(&name.to_ascii_lowercase());
        if !known && !of_signature {
            let why = format!("{} does not have this parameter.", operation.name());
            return Err(S3Error::argument(name, "", why));
        }
    }
    Ok(())
}

/// Returns a parameter that must be there.
///
/// # Errors
/// [`Code::InvalidArgument`].
pub fn required<'q>(query: &'q Query, name: &str) -> S3Result<&'q str> {
    let missing = || S3Error::argument(name, "", "This parameter is required.");
    query.single(name)?.ok_or_else(missing)
}

/// Returns a parameter that is a number.
///
/// # Errors
/// [`Code::InvalidArgument`].
pub fn number<N: FromStr>(query: &Query, name: &str) -> S3Result<Option<N>> {
    let Some(text) = query.single(name)? else {
        return Ok(None);
    };
    let parsed = text.parse();
    let why = "This parameter is a number.";
    parsed
        .map(Some)
        .map_err(|_| S3Error::argument(name, text, why))
}

/// Returns a parameter that is true or false.
///
/// # Errors
/// [`Code::InvalidArgument`].
pub fn flag(query: &Query, name: &str) -> S3Result<bool> {
    match query.single(name)? {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(text) => {
            let why = "This parameter is true or false.";
            Err(S3Error::argument(name, text, why))
        }
    }
}

/// Checks a limit of a listing.
///
/// # Errors
/// [`Code::InvalidArgument`] for 0.
pub fn limit(limit: Option<u64>) -> S3Result<Option<usize>> {
    match limit {
        Some(0) => Err(S3Error::argument("limit", "0", "The limit is at least 1.")),
        limit => Ok(limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX))),
    }
}
