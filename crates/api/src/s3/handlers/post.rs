//! PostObject: an upload from a browser's form.

mod sign_in;

use std::collections::VecDeque;

use archipel_model::{Checksum, Condition, ObjectHead, ObjectMeta};
use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{StatusCode, Uri};

use super::made::{self, Made};
use super::{MAX_PUT_BYTES, refuse_locks, set_checksum};
use crate::s3::acl;
use crate::s3::auth::{self, Authorised, OnObject};
use crate::s3::body::RequestBody;
use crate::s3::call::Call;
use crate::s3::checksum::{Algorithm, Expected};
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::lock;
use crate::s3::metadata;
use crate::s3::post::{Event, Fields, FormReader, Policy};
use crate::s3::precondition;
use crate::s3::respond::{self, Answer};
use crate::s3::route::{ObjectOp, Operation};
use crate::s3::sigv4::{Lookup, Verifier};
use crate::s3::sse::{self, EncryptionHeaders};
use crate::s3::tagging;
use crate::s3::target::check_key;
use crate::s3::transfer::{Source, transfer};
use crate::s3::uri;
use crate::s3::xml::Writer;

use sign_in::sign_in;

/// The most bytes of a form besides its file.
const MAX_OVERHEAD: u64 = 1 << 20;

/// Returns the error for a signed request: what is no form is refused as S3 does, and a form is
/// signed by its fields only.
pub fn refuse_signed(call: &Call<'_>) -> S3Error {
    let content_type = call.header("content-type").ok().flatten();
    let form = FormReader::new(content_type.unwrap_or_default());
    form.err().unwrap_or_else(|| Code::MethodNotAllowed.into())
}

/// Answers PostObject: the form's fields authenticate it.
pub async fn post_object(
    call: &mut Call<'_>,
    verifier: &Verifier,
    version_2: bool,
    lookup: Lookup<'_>,
) -> S3Result<Answer> {
    let bucket = call.target.bucket.clone().unwrap_or_default();
    let content_type = call.header("content-type")?.unwrap_or_default();
    // Of a form, the fields count.
    refuse_locks(call, Operation::PostObject)?;
    sse::refuse_headers(call, Operation::PostObject)?;
    let mut form = Form::new(content_type)?;
    if call.content_length()? > MAX_PUT_BYTES + MAX_OVERHEAD {
        return Err(Code::EntityTooLarge.into());
    }
    let fields = form.fields(&mut call.body).await?;
    // This comes before the policy, which may have a condition about the key.
    let key = fields.key()?;
    let signed = sign_in(call, verifier, version_2, lookup, &fields, &bucket).await?;
    let (caller, policy) = signed;
    call.learned.key = Some(key.clone());
    check_key(&key)?;
    call.form = Some(field_headers(&fields)?);
    let tags = fields.get("tagging").filter(|text| !text.is_empty());
    let tags = tags.map(|text| tagging::of_object(text.as_bytes()));
    call.tags = tags.transpose()?;
    call.creates = Some(true);
    // Policies are told the condition, so it must hold.
    let condition = precondition::of_write(call.headers)?;
    let on = auth::object(call, &caller, ObjectOp::PutObject, &bucket, &key).await?;
    let stored = store(call, &on, form, &policy, condition).await?;
    let mut answer = answer(call, &fields, &bucket, &key, &stored.head.etag)?;
    set_checksum(&mut answer, &stored.checksum)?;
    stored.encryption.set_on(&mut answer)?;
    let made = Made::of(call.model, on.bucket(), &key, &stored.head);
    made.set_on(&mut answer, on.bucket())?;
    Ok(answer)
}

/// An object that a form made.
struct Stored {
    head: ObjectHead,
    checksum: Checksum,
    encryption: EncryptionHeaders,
}

/// Stores the file of a form, as its fields describe it.
async fn store(
    call: &mut Call<'_>,
    on: &Authorised<OnObject>,
    mut form: Form,
    policy: &Policy,
    condition: Condition,
) -> S3Result<Stored> {
    let headers = call.described_by();
    let acl = acl::of_new(call.model, headers, on.bucket())?;
    let lock = lock::of_new(headers, call.now_ms(), on.bucket())?;
    let encryption = sse::of_new(call, on.bucket())?;
    let expected = Expected::of(headers, None, false)?;
    expected.check_announced(headers, "x-amz-checksum-algorithm")?;
    lock::check_digest(&expected, lock, on.bucket().lock.as_ref())?;
    let kept = metadata::of_headers(headers)?;
    let tags = call.tags.take().unwrap_or_default();

    let mut writer = made::begin(call, on, encryption.as_ref()).await?;
    let most = (*policy.length.end()).min(MAX_PUT_BYTES);
    let wanted = expected.wanted(Algorithm::Crc64Nvme);
    let mut file = File {
        form: &mut form,
        body: &mut call.body,
    };
    let moved = transfer(&mut file, &mut writer, wanted, most).await?;
    if moved.size < *policy.length.start() {
        return Err(S3Error::from(Code::EntityTooSmall)
            .with("ProposedSize", moved.size.to_string())
            .with("MinSizeAllowed", policy.length.start().to_string()));
    }
    form.finish(&mut call.body).await?;
    expected.check(&moved.digests, &[])?;
    let checksum = moved.digests.checksum.stored();
    let meta = ObjectMeta {
        lock,
        etag: moved.digests.etag(),
        headers: kept,
        checksum: Some(checksum.clone()),
        tags,
        acl,
    };
    Ok(Stored {
        head: writer.finish(meta, condition).await?,
        checksum,
        encryption: sse::headers_of_new(encryption.as_ref()),
    })
}

/// Returns the fields that stand for headers.
fn field_headers(fields: &Fields) -> S3Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in fields.iter() {
        // Forms have a name of their own for the canned ACL.
        let name = if name == "acl" { acl::HEADER } else { name };
        let stands = metadata::is_kept(name)
            || name == metadata::STORAGE_CLASS
            || name == metadata::REDIRECT
            || name == "content-md5"
            || name == acl::HEADER
            || name.starts_with("x-amz-checksum-")
            || lock::HEADERS.contains(&name)
            || name.starts_with(sse::PREFIX);
        if stands {
            let bad = || S3Error::argument(name, value, "The field is not fit for a header.");
            let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
            // As around the value of a header, white space means nothing.
            let value = value.trim_matches([' ', '\t']);
            let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| bad())?;
            headers.insert(header, value);
        }
    }
    auth::check_headers(&headers)?;
    Ok(headers)
}

/// The form, and what was read of it and not yet taken.
struct Form {
    reader: FormReader,
    events: VecDeque<Event>,
    /// The file has been read.
    file_ended: bool,
    /// The body has ended.
    ended: bool,
}

impl Form {
    fn new(content_type: &str) -> S3Result<Form> {
        Ok(Form {
            reader: FormReader::new(content_type)?,
            events: VecDeque::new(),
            file_ended: false,
            ended: false,
        })
    }

    async fn next(&mut self, body: &mut RequestBody) -> S3Result<Option<Event>> {
        while self.events.is_empty() && !self.ended {
            match body.next().await? {
                Some(piece) => {
                    let mut events = Vec::new();
                    self.reader.feed(&piece, &mut events)?;
                    self.events.extend(events);
                }
                None => {
                    self.ended = true;
                    self.reader.finish()?;
                }
            }
        }
        Ok(self.events.pop_front())
    }

    /// Reads up to the file: the fields, with the file's name where they ask for it.
    async fn fields(&mut self, body: &mut RequestBody) -> S3Result<Fields> {
        let mut fields = Fields::default();
        while let Some(event) = self.next(body).await? {
            match event {
                Event::Field { name, value } => fields.add(&name, value)?,
                Event::File { filename, .. } => {
                    fields.expand(&filename);
                    return Ok(fields);
                }
                Event::Data(_) | Event::End => break,
            }
        }
        Err(Code::MalformedPOSTRequest.into())
    }

    /// Reads to the end of the body: a form that was cut off is no form.
    async fn finish(&mut self, body: &mut RequestBody) -> S3Result<()> {
        while self.next(body).await?.is_some() {}
        Ok(())
    }
}

/// The file's content.
struct File<'f> {
    form: &'f mut Form,
    body: &'f mut RequestBody,
}

impl Source for File<'_> {
    async fn next(&mut self) -> S3Result<Option<Bytes>> {
        if self.form.file_ended {
            return Ok(None);
        }
        match self.form.next(self.body).await? {
            Some(Event::Data(bytes)) => Ok(Some(bytes)),
            Some(Event::End) => {
                self.form.file_ended = true;
                Ok(None)
            }
            _ => Err(Code::MalformedPOSTRequest.into()),
        }
    }
}

fn answer(
    call: &Call<'_>,
    fields: &Fields,
    bucket: &str,
    key: &str,
    etag: &str,
) -> S3Result<Answer> {
    let location = call.location(bucket, key);
    let redirect = fields
        .get("success_action_redirect")
        .or_else(|| fields.get("redirect"));
    let (mut answer, location) = match redirect.and_then(|to| redirection(to, bucket, key, etag)) {
        Some(to) => (respond::empty(StatusCode::SEE_OTHER), to),
        None => match fields.get("success_action_status") {
            Some("200") => (respond::empty(StatusCode::OK), location),
            Some("201") => (created(&location, bucket, key, etag), location),
            _ => (respond::empty(StatusCode::NO_CONTENT), location),
        },
    };
    respond::set(&mut answer, "location", &location)?;
    respond::set(&mut answer, "etag", &respond::quoted(etag))?;
    Ok(answer)
}

fn created(location: &str, bucket: &str, key: &str, etag: &str) -> Answer {
    let mut xml = Writer::bare("PostResponse");
    xml.text("Location", location);
    xml.text("Bucket", bucket);
    xml.text("Key", key);
    xml.text("ETag", &respond::quoted(etag));
    respond::xml_bytes(StatusCode::CREATED, xml.finish())
}

/// Returns the address to which a browser is redirected. Returns `None` if `to` is no address; S3
/// ignores it then.
fn redirection(to: &str, bucket: &str, key: &str, etag: &str) -> Option<String> {
    let address: Uri = to.parse().ok()?;
    if !matches!(address.scheme_str(), Some("http" | "https")) {
        return None;
    }
    let separator = if address.query().is_some() { '&' } else { '?' };
    // Servers do not see what follows.
    let (to, fragment) = match to.split_once('#') {
        Some((to, fragment)) => (to, format!("#{fragment}")),
        None => (to, String::new()),
    };
    let (bucket, key) = (uri::encode(bucket), uri::encode(key));
    let etag = uri::encode(&respond::quoted(etag));
    Some(format!(
        "{to}{separator}bucket={bucket}&key={key}&etag={etag}{fragment}"
    ))
}
