//! PostObject: an upload from a browser's form.

use std::collections::VecDeque;
use std::sync::Arc;

use archipel_model::{AccessKey, ObjectMeta};
use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{StatusCode, Uri};

use super::{MAX_PUT_BYTES, refuse_locks, set_checksum, set_version_header};
use crate::s3::acl;
use crate::s3::auth::{self, Caller, Credential};
use crate::s3::body::RequestBody;
use crate::s3::call::Call;
use crate::s3::checksum::{Algorithm, Expected};
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::lifecycle;
use crate::s3::lock;
use crate::s3::metadata;
use crate::s3::post::{Event, Fields, FormReader, Policy};
use crate::s3::precondition;
use crate::s3::respond::{self, Answer};
use crate::s3::route::{ObjectOp, Operation, refuse_headers};
use crate::s3::signed;
use crate::s3::sigv2;
use crate::s3::sigv4::{ALGORITHM, Lookup, PolicyFields, Verifier};
use crate::s3::sse;
use crate::s3::tagging;
use crate::s3::target::check_key;
use crate::s3::transfer::{Source, transfer};
use crate::s3::uri;
use crate::s3::xml::Writer;

/// The most bytes of a form besides its file.
const MAX_OVERHEAD: u64 = 1 << 20;

/// The fields of a signature of version 4.
const SIGNATURE: [&str; 4] = [
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-signature",
];

/// The fields of a signature of version 2.
const VERSION_2: [&str; 2] = ["awsaccesskeyid", "signature"];

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
    let mut form = Form::new(content_type)?;
    if call.content_length()? > MAX_PUT_BYTES + MAX_OVERHEAD {
        return Err(Code::EntityTooLarge.into());
    }
    let fields = form.fields(&mut call.body).await?;
    let session = match fields.get(signed::TOKEN) {
        Some(token) => Some(call.model.key_of_token(token).await?),
        None => None,
    };
    let of_session = session.as_ref().map(signed::of_session);
    let lookup: Lookup<'_> = match &of_session {
        Some(of_session) => of_session,
        None => {
            learn_key(call, lookup, &fields).await?;
            lookup
        }
    };
    let (signer, policy) = authenticate(call, verifier, version_2, lookup, &fields, &bucket)?;
    let caller = match signer {
        Some((key, credential)) => {
            Caller::verified(call.model, &call.rates, &key, credential).await?
        }
        None => Caller::anonymous(),
    };
    call.name(&caller);
    if let Some(key) = caller.key() {
        call.model.find_bucket_of_key(key, &bucket).await?;
    }
    let key = fields.key()?;
    call.learned.key = Some(key.clone());
    check_key(&key)?;
    let headers = field_headers(&fields)?;
    let tags = fields.get("tagging").filter(|text| !text.is_empty());
    let tags = tags.map(|text| tagging::of_object(text.as_bytes()));
    call.tags = tags.transpose()?;
    call.form = Some(headers.clone());
    call.creates = Some(true);
    // Policies are told the condition, so it must hold.
    let condition = precondition::of_write(call.headers)?;
    let on = auth::object(call, &caller, ObjectOp::PutObject, &bucket, &key).await?;
    let acl = acl::of_new(call.model, &headers, on.bucket())?;
    let lock = lock::of_headers(&headers, call.now_ms())?;
    let encryption = sse::of_new(call, on.bucket())?;
    let expected = Expected::of(&headers, None, false)?;
    expected.check_announced(&headers, "x-amz-checksum-algorithm")?;
    lock::check_digest(&expected, lock, on.bucket().lock.as_ref())?;
    let kept = metadata::of_headers(&headers)?;
    let tags = call.tags.take().unwrap_or_default();

    let mut writer = call.model.begin_object(on.bucket(), on.key())?;
    if let Some(new) = &encryption {
        writer.encrypt(&new.seal(call, on.bucket(), on.key()).await?)?;
    }
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
    let head = writer.finish(meta, condition).await?;
    let mut answer = answer(call, &fields, &bucket, &key, &head.etag)?;
    set_version_header(&mut answer, on.bucket(), head.id)?;
    set_checksum(&mut answer, &checksum)?;
    sse::headers_of_new(encryption.as_ref()).set_on(&mut answer)?;
    let expiration = lifecycle::expiration(call.model, on.bucket(), &key, &head);
    lifecycle::set_expiration_header(&mut answer, expiration.as_deref())?;
    Ok(answer)
}

/// Fetches an unknown key: another node may have made it a moment ago.
async fn learn_key(call: &Call<'_>, lookup: Lookup<'_>, fields: &Fields) -> S3Result<()> {
    let credential = fields.get("x-amz-credential");
    let id = credential.and_then(|credential| credential.split('/').next());
    let id = id.or_else(|| fields.get(VERSION_2[0]));
    if let Some(id) = id
        && lookup(id)?.is_none()
    {
        call.model.find_access_key(id).await?;
    }
    Ok(())
}

/// The key that signed a form, and how.
type Signed = (Arc<AccessKey>, Credential);

/// Checks the policy's signature, then its conditions. Returns the key that signed it.
fn authenticate(
    call: &Call<'_>,
    verifier: &Verifier,
    version_2: bool,
    lookup: Lookup<'_>,
    fields: &Fields,
    bucket: &str,
) -> S3Result<(Option<Signed>, Policy)> {
    let signs = |(name, _): (&str, &str)| SIGNATURE.contains(&name) || VERSION_2.contains(&name);
    let Some(encoded) = fields.get("policy") else {
        // Where everybody may put objects, a form needs no policy.
        return match fields.iter().any(signs) {
            true => Err(Code::AccessDenied.into()),
            false => {
                refuse_fields(fields)?;
                Ok((None, Policy::unlimited()))
            }
        };
    };
    let of_version_4 = fields.iter().any(|(name, _)| SIGNATURE.contains(&name));
    let (key, version) = match fields.get(VERSION_2[0]) {
        Some(id) if version_2 && !of_version_4 => {
            let signature = fields.required(VERSION_2[1])?;
            (sigv2::verify_policy(encoded, id, signature, lookup)?, "AWS")
        }
        Some(_) => return Err(sigv2::unsupported()),
        None => {
            let signed = PolicyFields {
                algorithm: fields.required(SIGNATURE[0])?,
                credential: fields.required(SIGNATURE[1])?,
                date: fields.required(SIGNATURE[2])?,
                signature: fields.required(SIGNATURE[3])?,
            };
            let key = verifier.verify_policy(encoded, &signed, call.now_ms(), lookup)?;
            (key, ALGORITHM)
        }
    };
    let policy = Policy::parse(encoded)?;
    policy.check(fields, bucket, call.now_ms())?;
    refuse_fields(fields)?;
    let credential = Credential {
        version,
        kind: "POST",
        age_ms: None,
    };
    Ok((Some((key, credential)), policy))
}

/// Refuses fields that would change the meaning of a form if they were implemented.
fn refuse_fields(fields: &Fields) -> S3Result<()> {
    refuse_headers(fields.iter().map(|(name, value)| (name, value.as_bytes())))?;
    let conditions = ["if-match", "if-none-match"];
    if let Some((name, _)) = fields
        .iter()
        .find(|(name, _)| name.starts_with("x-amz-grant-") || conditions.contains(name))
    {
        return Err(S3Error::not_implemented(&format!("The form field {name}")));
    }
    let tags = fields.get(tagging::HEADERS[0]);
    match tags.is_some_and(|value| !value.is_empty()) {
        true => Err(S3Error::not_implemented("The form field x-amz-tagging")),
        false => Ok(()),
    }
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
