//! A bucket's default encryption.
//!
//! Source: AWS, PutBucketEncryption; "Blocking or unblocking SSE-C for a general purpose bucket".

use archipel_model::{BlockedEncryption, DefaultEncryption};
use http::StatusCode;

use crate::s3::auth::{Authorised, OnBucket};
use crate::s3::call::Call;
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::respond::{self, Answer};
use crate::s3::xml::{self, Element, Writer};

/// The largest document.
const MAX_DOCUMENT_BYTES: usize = 16 << 10;

/// The names of what may be blocked.
const NOTHING: &str = "NONE";
const CUSTOMER: &str = "SSE-C";

/// Answers PutBucketEncryption.
pub async fn put(call: &mut Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let document = call.document(MAX_DOCUMENT_BYTES).await?;
    let default = read(&document)?;
    let set = call.model.set_default_encryption(on.bucket(), default);
    set.await?;
    Ok(respond::empty(StatusCode::OK))
}

/// Reads a document. A rule with `BlockedEncryptionTypes` and without
/// `ApplyServerSideEncryptionByDefault` changes what is blocked and no default. All other rules are
/// about the default, which is encryption by the cluster's keys. Without `BlockedEncryptionTypes`,
/// what is blocked stays blocked.
fn read(document: &[u8]) -> S3Result<DefaultEncryption> {
    let root = xml::parse(document, "ServerSideEncryptionConfiguration")?;
    let [rule] = root.only(&["Rule"])? else {
        return Err(Code::MalformedXML.into());
    };
    rule.only(&[
        "ApplyServerSideEncryptionByDefault",
        "BucketKeyEnabled",
        "BlockedEncryptionTypes",
    ])?;
    let blocked = rule.child("BlockedEncryptionTypes")?.map(read_blocked);
    let by_default = rule.child("ApplyServerSideEncryptionByDefault")?;
    let sets_default = by_default.is_some() || blocked.is_none();
    let names_bucket_key = rule.child("BucketKeyEnabled")?.is_some();
    let bucket_key = rule.child_flag("BucketKeyEnabled")?;
    let default = DefaultEncryption {
        is_enabled: sets_default.then_some(true),
        has_bucket_key: (sets_default || names_bucket_key).then_some(bucket_key),
        blocked: blocked.transpose()?,
    };
    let Some(by_default) = by_default else {
        return Ok(default);
    };
    by_default.only(&["SSEAlgorithm", "KMSMasterKeyID"])?;
    let id = by_default.child_text("KMSMasterKeyID")?.map(str::trim);
    match by_default.required_text("SSEAlgorithm")?.trim() {
        "AES256" if id.is_some_and(|id| !id.is_empty()) => {
            let why = "a KMSMasterKeyID is not applicable if the default sse algorithm is not \
                       aws:kms or aws:kms:dsse";
            Err(S3Error::new(Code::InvalidArgument, why))
        }
        "AES256" => Ok(default),
        "aws:kms" | "aws:kms:dsse" => Err(S3Error::not_implemented(
            "Server-side encryption with keys of AWS KMS",
        )),
        _ => Err(Code::MalformedXML.into()),
    }
}

/// Reads the one type of encryption that is blocked; `NONE` says that none is.
fn read_blocked(blocked: &Element) -> S3Result<BlockedEncryption> {
    blocked.only(&["EncryptionType"])?;
    let types = blocked.texts("EncryptionType");
    let types: Vec<&str> = types.iter().map(|text| text.trim()).collect();
    match types.as_slice() {
        [NOTHING] => Ok(BlockedEncryption::Nothing),
        [CUSTOMER] => Ok(BlockedEncryption::Customer),
        _ => Err(Code::MalformedXML.into()),
    }
}

/// Answers GetBucketEncryption.
pub fn get(on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let (encrypts, blocked) = (on.bucket().encrypts, on.bucket().blocked_encryption);
    if !encrypts && blocked.is_none() {
        let none = Code::ServerSideEncryptionConfigurationNotFoundError;
        return Err(S3Error::of_bucket(none, &on.bucket().name));
    }
    let mut xml = Writer::new("ServerSideEncryptionConfiguration");
    xml.open("Rule");
    if encrypts {
        xml.open("ApplyServerSideEncryptionByDefault");
        xml.text("SSEAlgorithm", "AES256");
        xml.close();
    }
    // A block may come with it, without a default.
    if encrypts || on.bucket().has_bucket_key {
        xml.value("BucketKeyEnabled", on.bucket().has_bucket_key);
    }
    if let Some(blocked) = blocked {
        xml.open("BlockedEncryptionTypes");
        xml.text(
            "EncryptionType",
            match blocked {
                BlockedEncryption::Nothing => NOTHING,
                BlockedEncryption::Customer => CUSTOMER,
            },
        );
        xml.close();
    }
    xml.close();
    Ok(respond::xml(xml))
}

/// Answers DeleteBucketEncryption. SSE-C stays blocked if it is: only a request that says so lifts
/// a block. The statement that nothing is blocked goes with the default.
pub async fn delete(call: &Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let default = DefaultEncryption {
        is_enabled: Some(false),
        ..DefaultEncryption::default()
    };
    let set = call.model.set_default_encryption(on.bucket(), default);
    set.await?;
    Ok(respond::empty(StatusCode::NO_CONTENT))
}
