//! Server-side encryption: its headers, in requests and answers.
//!
//! Invariant: no operation ignores a header about encryption. It honours the header, or refuses it.
//!
//! Source: AWS, "Protecting data with server-side encryption", "Using server-side encryption with
//! customer-provided keys (SSE-C)".

mod customer;

use archipel_model::{
    BlockedEncryption, Bucket, DataKey, Encrypt, Encryption, EncryptionKind, Error, ObjectHead,
    ObjectReader, Sealing, Upload,
};
use http::HeaderMap;

use super::auth::{Authorised, OnObject};
use super::call::{Call, single_header};
use super::error::{Code, S3Error, S3Result};
use super::respond::{self, Answer};
use super::route::{ObjectOp, Operation};
use customer::{CUSTOMER, Customer, Names, SOURCE, customer_of};

/// The beginning of all headers about encryption.
pub const PREFIX: &str = "x-amz-server-side-encryption";

/// The header that asks for encryption by the cluster's keys.
const SERVER: &str = "x-amz-server-side-encryption";

/// Headers about keys of AWS's key management.
const KMS_ONLY: [&str; 2] = [
    "x-amz-server-side-encryption-aws-kms-key-id",
    "x-amz-server-side-encryption-context",
];

/// The header about S3 Bucket Keys.
const BUCKET_KEY: &str = "x-amz-server-side-encryption-bucket-key-enabled";

/// The one algorithm.
const AES256: &str = "AES256";

/// Refuses headers about encryption where they would be ignored.
///
/// # Errors
/// [`Code::InvalidArgument`], with the header's name.
pub fn refuse_headers(call: &Call<'_>, operation: Operation) -> S3Result<()> {
    use ObjectOp as O;
    let (server, customer, source) = match operation {
        // Of a form, the fields count.
        Operation::PostObject => (false, false, false),
        Operation::Object(op) => match op {
            O::CopyObject => (true, true, true),
            O::CreateMultipartUpload | O::PutObject => (true, true, false),
            O::UploadPartCopy => (false, true, true),
            O::CompleteMultipartUpload
            | O::GetObject
            | O::GetObjectAttributes
            | O::HeadObject
            | O::ListParts
            | O::UploadPart => (false, true, false),
            _ => (false, false, false),
        },
        _ => (false, false, false),
    };
    let is_of = |names: &Names, name: &str| [names.algorithm, names.key, names.md5].contains(&name);
    for name in call.headers.keys().map(|name| name.as_str()) {
        let taken = match name {
            _ if is_of(&CUSTOMER, name) => customer,
            _ if is_of(&SOURCE, name) => source,
            // minio-go repeats it, except to AWS. `check_upload` compares it with the upload.
            SERVER if operation == Operation::Object(O::CompleteMultipartUpload) => true,
            _ if [SERVER, BUCKET_KEY].contains(&name) || KMS_ONLY.contains(&name) => server,
            _ => !name.starts_with(PREFIX),
        };
        if !taken {
            let why = format!("{name} header is not supported for this operation.");
            return Err(S3Error::argument(name, "", why));
        }
    }
    Ok(())
}

/// The encryption of a new object.
pub struct NewEncryption {
    how: Encrypt,
    headers: EncryptionHeaders,
}

/// The headers of an answer that say how the content is encrypted.
#[derive(Clone, PartialEq, Eq)]
pub enum EncryptionHeaders {
    /// Nothing: the content is not encrypted.
    Nothing,
    /// By a key of the cluster.
    Server,
    /// By the customer's key with this MD5.
    Customer(String),
}

/// Returns how the request, or else the bucket, wants a new object encrypted.
///
/// # Errors
/// Those of the headers; [`Code::NotImplemented`] for keys of AWS's key management;
/// [`Code::AccessDenied`] as [`refuse_blocked`].
pub fn of_new(call: &Call<'_>, bucket: &Bucket) -> S3Result<Option<NewEncryption>> {
    let headers = call.described_by();
    if CUSTOMER.are_in(headers) {
        refuse_blocked(bucket)?;
    }
    let server = single_header(headers, SERVER)?;
    if let Some(customer) = customer_of(call, headers, &CUSTOMER)? {
        if let Some(server) = server {
            let why = "Server Side Encryption with Customer provided key is incompatible with the \
                       encryption method specified";
            return Err(S3Error::argument(SERVER, server, why));
        }
        refuse_kms(headers)?;
        return Ok(Some(NewEncryption {
            how: Encrypt::Customer(customer.key),
            headers: EncryptionHeaders::Customer(customer.md5),
        }));
    }
    match server {
        None | Some(AES256) => {}
        Some("aws:kms" | "aws:kms:dsse") => {
            let error = S3Error::not_implemented("Server-side encryption with keys of AWS KMS");
            return Err(error.with("Header", SERVER));
        }
        Some(other) => {
            let why = "The encryption method specified is not supported";
            return Err(S3Error::argument(SERVER, other, why));
        }
    }
    refuse_kms(headers)?;
    Ok(
        (server.is_some() || bucket.encrypts).then_some(NewEncryption {
            how: Encrypt::Server,
            headers: EncryptionHeaders::Server,
        }),
    )
}

/// Refuses a write under a customer's key if the bucket blocks that. Nothing else about the key is
/// looked at before.
///
/// # Errors
/// [`Code::AccessDenied`].
fn refuse_blocked(bucket: &Bucket) -> S3Result<()> {
    match bucket.blocked_encryption {
        Some(BlockedEncryption::Customer) => {
            let why = "Access Denied because this bucket has blocked upload requests that specify \
                       Server Side Encryption with Customer provided keys (SSE-C). Please specify \
                       a different server-side encryption type.";
            Err(S3Error::new(Code::AccessDenied, why))
        }
        Some(BlockedEncryption::Nothing) | None => Ok(()),
    }
}

/// Refuses headers about keys of AWS's key management in a request that asks for none of them.
fn refuse_kms(headers: &HeaderMap) -> S3Result<()> {
    if KMS_ONLY.iter().any(|name| headers.contains_key(*name)) {
        let why = "Server Side Encryption with AWS KMS managed key requires HTTP header \
                   x-amz-server-side-encryption : aws:kms";
        let server = single_header(headers, SERVER)?.unwrap_or("null");
        return Err(S3Error::argument(SERVER, server, why));
    }
    match headers.get(BUCKET_KEY) {
        Some(value) if !value.as_bytes().eq_ignore_ascii_case(b"false") => {
            Err(S3Error::from(Code::NotImplemented).with("Header", BUCKET_KEY))
        }
        _ => Ok(()),
    }
}

impl NewEncryption {
    /// Makes the key of the content.
    ///
    /// # Errors
    /// Those of the model.
    pub async fn seal(&self, call: &Call<'_>, bucket: &Bucket, key: &str) -> S3Result<Sealing> {
        Ok(Box::pin(call.model.seal(bucket, key, &self.how)).await?)
    }
}

/// Returns the headers of the answer about a new object.
pub fn headers_of_new(new: Option<&NewEncryption>) -> EncryptionHeaders {
    new.map_or(EncryptionHeaders::Nothing, |new| new.headers.clone())
}

impl EncryptionHeaders {
    /// Adds the headers to an answer.
    ///
    /// # Errors
    /// Those of headers.
    pub fn set_on(&self, answer: &mut Answer) -> S3Result<()> {
        match self {
            EncryptionHeaders::Nothing => Ok(()),
            EncryptionHeaders::Server => respond::set(answer, SERVER, AES256),
            EncryptionHeaders::Customer(md5) => {
                respond::set(answer, CUSTOMER.algorithm, AES256)?;
                respond::set(answer, CUSTOMER.md5, md5)
            }
        }
    }

    /// Adds them to an answer that gives no key back: completions and listings.
    ///
    /// # Errors
    /// Those of headers.
    pub fn set_server_on(encryption: Option<&Encryption>, answer: &mut Answer) -> S3Result<()> {
        match encryption.map(|encryption| encryption.kind) {
            Some(EncryptionKind::Server) => EncryptionHeaders::Server.set_on(answer),
            _ => Ok(()),
        }
    }
}

/// Refuses a key where there is none to be given, and the other way round.
fn check_kind(encryption: Option<&Encryption>, customer: Option<&Customer>) -> S3Result<()> {
    let kind = encryption.map(|encryption| encryption.kind);
    match (kind, customer) {
        (Some(EncryptionKind::Customer), None) => Err(Error::KeyNeeded.into()),
        (Some(EncryptionKind::Server) | None, Some(_)) => {
            let why = "The encryption parameters are not applicable to this object.";
            Err(S3Error::new(Code::InvalidRequest, why))
        }
        _ => Ok(()),
    }
}

fn headers_of(encryption: Option<&Encryption>, customer: Option<Customer>) -> EncryptionHeaders {
    match (encryption, customer) {
        (None, _) => EncryptionHeaders::Nothing,
        (Some(_), None) => EncryptionHeaders::Server,
        (Some(_), Some(customer)) => EncryptionHeaders::Customer(customer.md5),
    }
}

/// Opens the content of an object by the key that the request gives, if it takes one.
///
/// # Errors
/// [`Code::InvalidRequest`], [`Code::AccessDenied`]; those of the headers.
pub fn unlock(call: &Call<'_>, reader: &mut ObjectReader) -> S3Result<EncryptionHeaders> {
    unlock_by(call, reader, &CUSTOMER)
}

/// Opens the content of a copy's source.
///
/// # Errors
/// As [`unlock`].
pub fn unlock_source(call: &Call<'_>, reader: &mut ObjectReader) -> S3Result<EncryptionHeaders> {
    unlock_by(call, reader, &SOURCE)
}

fn unlock_by(
    call: &Call<'_>,
    reader: &mut ObjectReader,
    names: &Names,
) -> S3Result<EncryptionHeaders> {
    let customer = customer_of(call, call.headers, names)?;
    check_kind(reader.metadata().encryption.as_deref(), customer.as_ref())?;
    if let Some(customer) = &customer {
        reader.unlock(&customer.key)?;
    }
    Ok(headers_of(
        reader.metadata().encryption.as_deref(),
        customer,
    ))
}

/// Checks the key that a request gives for an object's metadata.
///
/// # Errors
/// As [`unlock`].
pub async fn check(
    call: &Call<'_>,
    on: &Authorised<OnObject>,
    head: &ObjectHead,
) -> S3Result<EncryptionHeaders> {
    let customer = customer_of(call, call.headers, &CUSTOMER)?;
    check_kind(head.encryption.as_deref(), customer.as_ref())?;
    if let (Some(encryption), Some(customer)) = (&head.encryption, &customer) {
        let key = Some(&customer.key);
        Box::pin(call.model.unseal(on.bucket(), on.key(), encryption, key)).await?;
    }
    Ok(headers_of(head.encryption.as_deref(), customer))
}

/// Refuses to read an object that takes a customer's key, where no key can be given.
///
/// # Errors
/// [`Code::InvalidRequest`].
pub fn refuse_customers(head: &ObjectHead) -> S3Result<()> {
    check_kind(head.encryption.as_deref(), None)
}

/// Returns the key of a part's upload, if the upload is encrypted.
///
/// # Errors
/// [`Code::InvalidRequest`] if the request gives no key or another one, and if the upload takes
/// none; [`Code::AccessDenied`] if it gives one and the bucket blocks that.
pub async fn of_part(
    call: &Call<'_>,
    on: &Authorised<OnObject>,
    upload: &Upload,
) -> S3Result<Option<PartKey>> {
    if CUSTOMER.are_in(call.headers) {
        refuse_blocked(on.bucket())?;
    }
    key_of_upload(call, on, upload).await
}

async fn key_of_upload(
    call: &Call<'_>,
    on: &Authorised<OnObject>,
    upload: &Upload,
) -> S3Result<Option<PartKey>> {
    let customer = customer_of(call, call.headers, &CUSTOMER)?;
    let encryption = upload.meta.encryption.as_deref();
    check_kind(encryption, customer.as_ref()).map_err(|error| {
        let why = match &customer {
            None => {
                "The multipart upload initiate requested encryption. Subsequent part requests must \
                 include the appropriate encryption parameters."
            }
            Some(_) => {
                "The multipart upload initiate did not request encryption with a customer provided \
                 key. The encryption parameters are not applicable."
            }
        };
        S3Error::new(error.code(), why)
    })?;
    let Some(encryption) = encryption else {
        return Ok(None);
    };
    let key = customer.as_ref().map(|customer| &customer.key);
    let unsealed = Box::pin(call.model.unseal(on.bucket(), on.key(), encryption, key));
    let key = unsealed.await.map_err(|error| match error {
        Error::WrongKey => {
            let why = "The provided encryption parameters did not match the ones used originally.";
            S3Error::new(Code::InvalidRequest, why)
        }
        error => error.into(),
    })?;
    Ok(Some(PartKey {
        key,
        kind: encryption.kind,
        headers: headers_of(Some(encryption), customer),
    }))
}

/// Checks the key of a request about an upload that needs none: it must be the upload's if it is
/// given.
///
/// # Errors
/// As [`of_part`], but for the block: the parts of an upload can still be listed.
pub async fn check_upload(
    call: &Call<'_>,
    on: &Authorised<OnObject>,
    upload: &Upload,
) -> S3Result<()> {
    let kind = upload.meta.encryption.as_ref().map(|one| one.kind);
    let is_server = kind == Some(EncryptionKind::Server);
    if let Some(named) = single_header(call.headers, SERVER)?
        && !(is_server && named == AES256)
    {
        let why = "The upload is not encrypted so.";
        return Err(S3Error::argument(SERVER, named, why));
    }
    match CUSTOMER.are_in(call.headers) {
        true => key_of_upload(call, on, upload).await.map(|_| ()),
        false => Ok(()),
    }
}

/// Checks a completion, as [`check_upload`] does. A block concerns only requests that give a key:
/// an upload that began before it can be completed without one.
///
/// # Errors
/// As [`of_part`].
pub async fn check_completion(
    call: &Call<'_>,
    on: &Authorised<OnObject>,
    upload: &Upload,
) -> S3Result<()> {
    if CUSTOMER.are_in(call.headers) {
        refuse_blocked(on.bucket())?;
    }
    check_upload(call, on, upload).await
}

/// The key of an upload.
pub struct PartKey {
    /// The key.
    pub key: DataKey,
    /// The kind of the key that wraps it.
    pub kind: EncryptionKind,
    /// The headers of the answer.
    pub headers: EncryptionHeaders,
}
