//! S3 Control, as far as the tags of buckets go: `/v20180820/tags/{ARN}`; and the account's Public
//! Access Block, which is not there.
//!
//! It is another API, which SDKs send to the same address when they are given one, with the account
//! in a header and often before the host. Terraform's provider reads the tags of buckets so.
//!
//! Source: AWS, "ListTagsForResource", "TagResource" and "UntagResource" in the S3 Control API
//! reference.

use archipel_access::resource_of_arn;
use archipel_model::Tags;
use http::{HeaderMap, Method, Uri};

use super::error::{Code, S3Error, S3Result};
use super::route::{BucketOp, Operation};
use super::tagging::{self, write_tag};
use super::target::Target;
use super::uri::{Query, decode_path};
use super::xml::{self, Writer};

/// The header with the account. S3 itself has no such header.
pub const ACCOUNT_HEADER: &str = "x-amz-account-id";

/// The beginning of all addresses of this API.
const VERSION: &str = "/v20180820/";

/// The path of the account's Public Access Block.
const ACCOUNT_BLOCK: &str = "/v20180820/configuration/publicAccessBlock";

/// The namespace of the documents, as an attribute.
const NAMESPACE: &str = " xmlns=\"http://awss3control.amazonaws.com/doc/2018-08-20/\"";

/// Returns true for a request to this API, and not to a bucket that is called as its version.
pub fn is_asked(uri: &Uri, headers: &HeaderMap) -> bool {
    headers.contains_key(ACCOUNT_HEADER) && uri.path().starts_with(VERSION)
}

/// Returns the bucket whose tags an address names; `None` for other resources of the API.
///
/// # Errors
/// [`Code::InvalidURI`]; [`Code::InvalidRequest`] for tags of something else than a bucket.
pub fn bucket(path: &str) -> S3Result<Option<String>> {
    let Some(arn) = path
        .strip_prefix(VERSION)
        .and_then(|path| path.strip_prefix("tags/"))
    else {
        return Ok(None);
    };
    let arn = decode_path(arn)?;
    let bucket = resource_of_arn(&arn);
    match bucket.filter(|name| !name.is_empty() && !name.contains(['/', ':'])) {
        Some(name) => Ok(Some(name.to_owned())),
        None => {
            let why = "The resource is not the ARN of a bucket.";
            Err(S3Error::new(Code::InvalidRequest, why))
        }
    }
}

/// Returns the operation of a request to this API.
///
/// # Errors
/// [`Code::NotImplemented`] for all but tags of buckets and the account's block;
/// [`Code::MethodNotAllowed`].
pub fn operation(method: &Method, target: &Target) -> S3Result<Operation> {
    let op = match (method, &target.bucket) {
        (&Method::GET, None) if target.path == ACCOUNT_BLOCK => {
            return Ok(Operation::GetAccountPublicAccessBlock);
        }
        (_, None) => {
            let what = format!("{method} of {}", target.path);
            return Err(S3Error::not_implemented(&what));
        }
        (&Method::GET, _) => BucketOp::ListTagsForResource,
        (&Method::POST, _) => BucketOp::TagResource,
        (&Method::DELETE, _) => BucketOp::UntagResource,
        _ => return Err(Code::MethodNotAllowed.into()),
    };
    Ok(Operation::Bucket(op))
}

/// Reads the document of TagResource.
///
/// # Errors
/// [`Code::MalformedXML`], and as [`tagging::of_new_bucket`].
pub fn tags(document: &[u8]) -> S3Result<Tags> {
    let root = xml::parse(document, "TagResourceRequest")?;
    root.only(&["Tags"])?;
    tagging::of_new_bucket(root.child("Tags")?.ok_or(Code::MalformedXML)?)
}

/// Returns the names of the tags that UntagResource removes.
///
/// # Errors
/// [`Code::InvalidRequest`] if there are none.
pub fn removed(query: &Query) -> S3Result<Vec<String>> {
    let named = query.iter().filter(|(name, _)| *name == "tagKeys");
    let named: Vec<String> = named.map(|(_, key)| key.to_owned()).collect();
    match named.is_empty() {
        true => Err(S3Error::new(Code::InvalidRequest, "There are no tagKeys.")),
        false => Ok(named),
    }
}

/// Writes the document of ListTagsForResource.
pub fn document(tags: &Tags) -> Writer {
    let mut xml = Writer::fragment();
    xml.open_with("ListTagsForResourceResult", NAMESPACE);
    xml.open("Tags");
    tags.iter().for_each(|tag| write_tag(&mut xml, tag));
    xml
}
