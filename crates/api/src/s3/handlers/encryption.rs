//! A bucket's default encryption.
//!
//! Source: AWS, PutBucketEncryption.

use archipel_model::DefaultEncryption;
use http::StatusCode;

use crate::s3::auth::{Authorised, OnBucket};
use crate::s3::call::Call;
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::respond::{self, Answer};
use crate::s3::xml::{self, Element, Writer};

/// The largest document.
const MAX_DOCUMENT_BYTES: usize = 16 << 10;

/// Answers PutBucketEncryption.
pub async fn put(call: &mut Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let document = call.document(MAX_DOCUMENT_BYTES).await?;
    let default = DefaultEncryption {
        is_enabled: true,
        has_bucket_key: check(&document)?,
    };
    let set = call.model.set_default_encryption(on.bucket(), default);
    set.await?;
    Ok(respond::empty(StatusCode::OK))
}

/// Checks that a document asks for encryption by the cluster's keys. Returns true if it asks for an S3
/// Bucket Key, too.
fn check(document: &[u8]) -> S3Result<bool> {
    let root = xml::parse(document, "ServerSideEncryptionConfiguration")?;
    let [rule] = root.only(&["Rule"])? else {
        return Err(Code::MalformedXML.into());
    };
    rule.only(&[
        "ApplyServerSideEncryptionByDefault",
        "BucketKeyEnabled",
        "BlockedEncryptionTypes",
    ])?;
    if let Some(blocked) = rule.child("BlockedEncryptionTypes")? {
        check_blocked(blocked)?;
    }
    let key = rule.child_flag("BucketKeyEnabled")?;
    // Without it, objects are encrypted as they are by default: by the cluster's keys.
    let Some(by_default) = rule.child("ApplyServerSideEncryptionByDefault")? else {
        return Ok(key);
    };
    by_default.only(&["SSEAlgorithm", "KMSMasterKeyID"])?;
    let id = by_default.child_text("KMSMasterKeyID")?.map(str::trim);
    match by_default.required_text("SSEAlgorithm")?.trim() {
        "AES256" if id.is_some_and(|id| !id.is_empty()) => {
            let why = "a KMSMasterKeyID is not applicable if the default sse algorithm is not \
                       aws:kms or aws:kms:dsse";
            Err(S3Error::new(Code::InvalidArgument, why))
        }
        "AES256" => Ok(key),
        "aws:kms" | "aws:kms:dsse" => Err(S3Error::not_implemented(
            "Server-side encryption with keys of AWS KMS",
        )),
        _ => Err(Code::MalformedXML.into()),
    }
}

/// Checks that no type of encryption is blocked: `NONE` says so.
fn check_blocked(blocked: &Element) -> S3Result<()> {
    blocked.only(&["EncryptionType"])?;
    let types = blocked.texts("EncryptionType");
    let types: Vec<&str> = types.iter().map(|text| text.trim()).collect();
    match types.as_slice() {
        ["NONE"] => Ok(()),
        ["SSE-C"] => Err(S3Error::not_implemented("BlockedEncryptionTypes")),
        _ => Err(Code::MalformedXML.into()),
    }
}

/// Answers GetBucketEncryption.
pub fn get(on: &Authorised<OnBucket>) -> S3Result<Answer> {
    if !on.bucket().encrypts {
        let none = Code::ServerSideEncryptionConfigurationNotFoundError;
        return Err(S3Error::of_bucket(none, &on.bucket().name));
    }
    let mut xml = Writer::new("ServerSideEncryptionConfiguration");
    xml.open("Rule");
    xml.open("ApplyServerSideEncryptionByDefault");
    xml.text("SSEAlgorithm", "AES256");
    xml.close();
    xml.value("BucketKeyEnabled", on.bucket().has_bucket_key);
    xml.close();
    Ok(respond::xml(xml))
}

/// Answers DeleteBucketEncryption.
pub async fn delete(call: &Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let default = DefaultEncryption::default();
    let set = call.model.set_default_encryption(on.bucket(), default);
    set.await?;
    Ok(respond::empty(StatusCode::NO_CONTENT))
}
