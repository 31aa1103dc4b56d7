//! CompleteMultipartUpload.

use std::sync::{Arc, OnceLock};

use archipel_base::Id;
use archipel_model::{
    Bucket, Checksum, ChecksumKind, Error, MAX_PART_NUMBER, Model, ObjectHead, ObjectMeta, Part,
    Upload,
};
use futures_util::join;
use md5::{Digest, Md5};

use super::made::Made;
use super::parts::kept_algorithm;
use super::uploads::upload_id;
use super::{with_key, write_checksum};
use crate::s3::auth::{Authorised, OnObject};
use crate::s3::call::Call;
use crate::s3::checksum::{self, Algorithm, Value};
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::precondition;
use crate::s3::respond::{self, Answer};
use crate::s3::slow;
use crate::s3::sse;
use crate::s3::xml::{self, Element, Writer};

/// The largest body: 10,000 parts with tags and checksums.
const MAX_DOCUMENT_BYTES: usize = 4 << 20;

/// The smallest part that is not the last.
const MIN_PART_BYTES: u64 = 5 << 20;

/// The largest object: 10,000 parts of 5 GiB.
const MAX_OBJECT_BYTES: u64 = 10_000 * (5 << 30);

/// Answers CompleteMultipartUpload.
pub async fn complete(call: &mut Call<'_>, on: &Authorised<OnObject>) -> S3Result<Answer> {
    let condition = precondition::of_write(call.headers)?;
    let id = upload_id(call)?;
    let document = call.completion_document(MAX_DOCUMENT_BYTES).await?;
    let named = parse(&document)?;
    let is_meant = |part: &Part| is_named(part, &named);
    let (upload, sent) = join!(
        call.model.upload(on.bucket(), on.key(), &id),
        call.model.sent_parts(on.bucket(), on.key(), &id, &is_meant),
    );
    let upload = match upload {
        Ok(upload) => upload,
        Err(Error::NoSuchUpload) => {
            // A text that cannot be the tag of a part names nothing that was completed before.
            let completion =
                Completion::of(call, on, id, &named).map_err(|_| Code::NoSuchUpload)?;
            let made = completion.made.clone();
            let answer = respond::xml(completion.done_before().await?);
            return set_headers(answer, on, &made);
        }
        Err(error) => return Err(error.into()),
    };
    sse::check_completion(call, on, &upload).await?;
    let encryption = upload.meta.encryption.clone();
    check_numbers(&upload, &named)?;
    let parts = choose(sent?, &upload, &named)?;
    let size = parts.iter().map(|part| part.size).sum();
    check_size(call, size)?;
    let checksum = object_checksum(&upload, &parts);
    check_declared(call, &upload, checksum.as_ref())?;
    let meta = ObjectMeta {
        lock: upload.meta.lock,
        etag: object_etag(parts.iter().map(|part| part.etag.as_str()))?,
        headers: upload.meta.headers.clone(),
        checksum,
        tags: upload.meta.tags.clone(),
        acl: upload.meta.acl,
    };
    let completion = Completion::of(call, on, id, &named)?;
    let (made, may_list) = (completion.made.clone(), on.may_list(call));
    let answer = slow::answer(async move {
        let (model, bucket) = (&completion.model, &completion.bucket);
        let done = model.complete_upload(bucket, &upload, &parts, meta, condition);
        match done.await {
            Ok(head) => Ok(completion.result(&head)),
            // Another request completed or aborted it at the same time.
            Err(Error::NoSuchUpload) => completion.done_before().await,
            Err(Error::NoSuchKey) if !may_list => Err(Code::AccessDenied.into()),
            Err(error) => Err(with_key(error, &completion.key)),
        }
    });
    let mut answer = answer.await?;
    sse::EncryptionHeaders::set_server_on(encryption.as_deref(), &mut answer)?;
    set_headers(answer, on, &made)
}

/// Adds headers about the object. An answer that had to begin before the object was there does not
/// have them.
fn set_headers(
    mut answer: Answer,
    on: &Authorised<OnObject>,
    made: &OnceLock<Made>,
) -> S3Result<Answer> {
    if let Some(made) = made.get() {
        made.set_on(&mut answer, on.bucket())?;
    }
    Ok(answer)
}

/// A part as the client names it.
struct Named {
    number: u16,
    etag: String,
    checksum: Option<Value>,
}

fn parse(document: &[u8]) -> S3Result<Vec<Named>> {
    let root = xml::parse(document, "CompleteMultipartUpload")?;
    let parts = root.only(&["Part"])?;
    if parts.is_empty() || parts.len() > usize::from(MAX_PART_NUMBER) {
        return Err(Code::MalformedXML.into());
    }
    let named: Vec<Named> = parts.iter().map(parse_part).collect::<S3Result<_>>()?;
    let rising = named
        .windows(2)
        .all(|pair| matches!(pair, [a, b] if a.number < b.number));
    if rising {
        Ok(named)
    } else {
        Err(Code::InvalidPartOrder.into())
    }
}

fn parse_part(part: &Element) -> S3Result<Named> {
    let mut names = vec!["PartNumber", "ETag"];
    names.extend(Algorithm::ALL.iter().map(|algorithm| algorithm.element()));
    part.only(&names)?;
    let number = part.required_text("PartNumber")?.trim().parse().ok();
    let number = number.filter(|n| (1..=MAX_PART_NUMBER).contains(n));
    let mut checksum = None;
    for algorithm in Algorithm::ALL {
        if let Some(text) = part.child_text(algorithm.element())? {
            let invalid = Code::InvalidPart;
            checksum = Some(Value::parse(algorithm, text.trim()).ok_or(invalid)?);
        }
    }
    Ok(Named {
        number: number.ok_or_else(|| {
            let why = "PartNumber must be an integer between 1 and 10000";
            S3Error::argument("partNumber", "", why)
        })?,
        etag: precondition::unquoted(part.required_text("ETag")?).to_owned(),
        checksum,
    })
}

/// Checks that parts whose checksums make the object's are numbered without gaps.
fn check_numbers(upload: &Upload, named: &[Named]) -> S3Result<()> {
    let composite =
        upload.meta.checksum_algorithm.is_some() && kind_of(upload) == ChecksumKind::Composite;
    let has_gap = || (1..).zip(named).any(|(place, name)| name.number != place);
    match composite && has_gap() {
        true => Err(Code::InvalidPartOrder.into()),
        false => Ok(()),
    }
}

/// Returns the kind of checksum that the object will have.
fn kind_of(upload: &Upload) -> ChecksumKind {
    let usual = kept_algorithm(upload).default_kind();
    upload.meta.checksum_kind.unwrap_or(usual)
}

/// Finds the parts that are named among those that [agree](is_named) with their names, and checks
/// their sizes. Both are in the order of their numbers.
fn choose(sent: Vec<Part>, upload: &Upload, named: &[Named]) -> S3Result<Vec<Part>> {
    let mut sent = sent.into_iter().peekable();
    let mut chosen = Vec::with_capacity(named.len());
    for (at, name) in named.iter().enumerate() {
        let part = sent.next_if(|part| part.number == name.number);
        let part = part.filter(|part| is_comparable(part, name, upload));
        let part = part.ok_or_else(|| invalid_part(upload, name))?;
        if at + 1 < named.len() && part.size < MIN_PART_BYTES {
            return Err(too_small(&part));
        }
        chosen.push(part);
    }
    Ok(chosen)
}

/// Returns true if a part has the tag and the checksum of the name of its number.
///
/// Of a part that was sent several times, the tag says which one the client means, also if another
/// one is newer.
fn is_named(part: &Part, named: &[Named]) -> bool {
    let at = named.binary_search_by_key(&part.number, |name| name.number);
    let Some(name) = at.ok().and_then(|at| named.get(at)) else {
        return false;
    };
    let stored = part.checksum.as_ref().and_then(Value::of_stored);
    let same_checksum = match (&name.checksum, stored) {
        (Some(given), Some(stored)) if given.algorithm == stored.algorithm => *given == stored,
        // It was checked when the part was sent, if it was given then.
        _ => true,
    };
    part.etag == name.etag && same_checksum
}

/// Returns false if the name has a checksum that nothing can be compared with, although the upload
/// chose an algorithm. All attempts at a part have checksums of one algorithm, so this excludes all
/// of them or none.
fn is_comparable(part: &Part, name: &Named, upload: &Upload) -> bool {
    let (Some(given), Some(_)) = (&name.checksum, &upload.meta.checksum_algorithm) else {
        return true;
    };
    let stored = part.checksum.as_ref().and_then(Value::of_stored);
    stored.is_some_and(|stored| stored.algorithm == given.algorithm)
}

fn invalid_part(upload: &Upload, name: &Named) -> S3Error {
    S3Error::from(Code::InvalidPart)
        .with("UploadId", upload.id.to_string())
        .with("PartNumber", name.number.to_string())
        .with("ETag", name.etag.clone())
}

fn too_small(part: &Part) -> S3Error {
    S3Error::from(Code::EntityTooSmall)
        .with("ProposedSize", part.size.to_string())
        .with("MinSizeAllowed", MIN_PART_BYTES.to_string())
        .with("PartNumber", part.number.to_string())
        .with("ETag", part.etag.clone())
}

fn check_size(call: &Call<'_>, size: u64) -> S3Result<()> {
    if size > MAX_OBJECT_BYTES {
        return Err(Code::EntityTooLarge.into());
    }
    match call.header("x-amz-mp-object-size")? {
        Some(text) if text.parse() != Ok(size) => {
            let why = format!(
                "The provided 'x-amz-mp-object-size' header value {text} does not match what was computed: {size}"
            );
            Err(S3Error::new(Code::InvalidRequest, why))
        }
        _ => Ok(()),
    }
}

/// Returns the MD5 of the parts' MD5s, with their number.
fn object_etag<'p>(parts: impl Iterator<Item = &'p str>) -> S3Result<String> {
    let (mut md5, mut count) = (Md5::new(), 0);
    for etag in parts {
        let bytes = hex::decode(etag).map_err(|_| Code::InvalidPart)?;
        md5.update(&bytes);
        count += 1;
    }
    Ok(format!("{}-{count}", hex::encode(md5.finalize())))
}

/// Returns the object's checksum, from those of its parts.
fn object_checksum(upload: &Upload, parts: &[Part]) -> Option<Checksum> {
    let algorithm = kept_algorithm(upload);
    let kind = kind_of(upload);
    let value = |part: &Part| part.checksum.as_ref().and_then(Value::of_stored);
    let values: Vec<Value> = parts.iter().filter_map(value).collect();
    if values.len() != parts.len() || values.iter().any(|v| v.algorithm != algorithm) {
        return None;
    }
    match kind {
        ChecksumKind::Composite => Some(checksum::composite(algorithm, &values)),
        ChecksumKind::FullObject => {
            let sizes = parts.iter().map(|part| part.size);
            let sized: Vec<_> = values.into_iter().zip(sizes).collect();
            checksum::full_object(algorithm, &sized).map(|value| value.stored())
        }
    }
}

/// Checks the checksum that the request declares for the object.
fn check_declared(call: &Call<'_>, upload: &Upload, checksum: Option<&Checksum>) -> S3Result<()> {
    let refuse = |why: &'static str| Err(S3Error::new(Code::InvalidRequest, why));
    if let Some(text) = call.header("x-amz-checksum-type")? {
        let kind = kind_of(upload);
        match checksum::parse_kind(text) {
            Some(given) if given == kind => {}
            Some(_) => {
                let why = "The checksum type is not the one that the upload was created with.";
                return Err(S3Error::new(Code::BadDigest, why));
            }
            None => return refuse("Value for x-amz-checksum-type header is invalid."),
        }
    }
    let Some((algorithm, text)) = checksum::declared_text(call.headers)? else {
        return Ok(());
    };
    let (value, _) = text.split_once('-').unwrap_or((text, ""));
    if Value::parse(algorithm, value).is_none() {
        return Err(checksum::invalid_value(algorithm));
    }
    match checksum {
        Some(sum) if sum.algorithm != algorithm.name() => {
            refuse("The checksum is not of the algorithm of the upload.")
        }
        // Of a composite one the number of parts may be left out.
        Some(sum) if sum.value == text || sum.value.split('-').next() == Some(text) => Ok(()),
        _ => Err(checksum::bad_checksum(algorithm)),
    }
}

/// The parts of the answer.
struct Completion {
    model: Model,
    bucket: Arc<Bucket>,
    key: String,
    /// The address of the object.
    location: String,
    upload: Id,
    /// The tag of what the client names.
    etag: String,
    made: Arc<OnceLock<Made>>,
}

impl Completion {
    fn of(
        call: &Call<'_>,
        on: &Authorised<OnObject>,
        upload: Id,
        named: &[Named],
    ) -> S3Result<Completion> {
        Ok(Completion {
            model: call.model.clone(),
            bucket: on.bucket().clone(),
            key: on.key().to_owned(),
            location: call.location(&on.bucket().name, on.key()),
            upload,
            etag: object_etag(named.iter().map(|name| name.etag.as_str()))?,
            made: Arc::default(),
        })
    }

    /// Answers a repeated completion. It succeeds, if it names what the object was made of.
    async fn done_before(&self) -> S3Result<Writer> {
        let model = &self.model;
        let same = |head: &ObjectHead| match head.etag == self.etag {
            true => Ok(()),
            false => Err(Error::NoSuchUpload),
        };
        let made = model.completed_by(&self.bucket, &self.key, &self.upload, &same);
        let head = made.await?.ok_or(Code::NoSuchUpload)?;
        Ok(self.result(&head))
    }

    fn result(&self, head: &ObjectHead) -> Writer {
        self.made
            .get_or_init(|| Made::of(&self.model, &self.bucket, &self.key, head));
        let mut xml = Writer::new("CompleteMultipartUploadResult");
        xml.text("Location", &self.location);
        xml.text("Bucket", &self.bucket.name);
        xml.text("Key", &self.key);
        xml.text("ETag", &respond::quoted(&head.etag));
        if let Some(checksum) = &head.checksum {
            write_checksum(&mut xml, checksum);
        }
        xml
    }
}
