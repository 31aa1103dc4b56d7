//! Operations on buckets.

use archipel_access::{Action, Ownership, bucket_arn};
use archipel_model::{Bucket, BucketLock, Error, Tags, Versioning};
use http::StatusCode;

use crate::s3::acl;
use crate::s3::auth::{self, Authorised, Caller, NewBucket, OnBucket, OnName, OnService};
use crate::s3::call::Call;
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::lock;
use crate::s3::owner::Owner;
use crate::s3::respond::{self, Answer};
use crate::s3::tagging;
use crate::s3::xml::{self, Element, Writer};

/// The largest body of CreateBucket.
const MAX_DOCUMENT_BYTES: usize = 64 << 10;

/// The most buckets of one answer.
const MAX_BUCKETS: usize = 10_000;

/// The region whose name S3 leaves out, for history's sake.
const FIRST_REGION: &str = "us-east-1";

/// Answers ListBuckets.
pub fn list(call: &Call<'_>, on: &Authorised<OnService>) -> S3Result<Answer> {
    let query = &call.target.query;
    let limit = super::encoding::count_parameter(call, "max-buckets", MAX_BUCKETS, usize::MAX)?;
    if !(1..=MAX_BUCKETS).contains(&limit) {
        let why = "max-buckets must be from 1 to 10000.";
        return Err(S3Error::argument("max-buckets", limit.to_string(), why));
    }
    let prefix = query.single("prefix")?.unwrap_or_default();
    let after = query.single("continuation-token")?.unwrap_or_default();
    if let Some(region) = query.single("bucket-region")?
        && region != call.region
    {
        let why = "All buckets are in the region of this endpoint.";
        return Err(S3Error::argument("bucket-region", region, why));
    }
    let caller = on.caller().known()?;
    let mut buckets = call.model.buckets()?;
    buckets.sort_by(|a, b| a.name.cmp(&b.name));
    buckets.retain(|bucket| {
        (on.sees_all() || !bucket.permissions(caller).is_empty())
            && bucket.name.starts_with(prefix)
            && bucket.name.as_str() > after
    });
    let truncated = buckets.len() > limit;
    buckets.truncate(limit);

    let mut xml = Writer::new("ListAllMyBucketsResult");
    let id = on.caller().subject().map_or("", |subject| subject.id());
    Owner::of_key(id).write(&mut xml, "Owner");
    xml.open("Buckets");
    for bucket in &buckets {
        write_bucket(&mut xml, bucket, call.region);
    }
    xml.close();
    if !prefix.is_empty() {
        xml.text("Prefix", prefix);
    }
    let last = buckets.last().filter(|_| truncated);
    xml.optional("ContinuationToken", last.map(|bucket| bucket.name.as_str()));
    Ok(respond::xml(xml))
}

fn write_bucket(xml: &mut Writer, bucket: &Bucket, region: &str) {
    xml.open("Bucket");
    xml.text("Name", &bucket.name);
    xml.text("CreationDate", &respond::iso_seconds(bucket.created_ms));
    xml.text("BucketRegion", region);
    xml.close();
}

/// Reads what CreateBucket asks for in its document.
///
/// # Errors
/// [`Code::MalformedXML`], [`Code::IllegalLocationConstraintException`] and others.
pub async fn read(call: &mut Call<'_>) -> S3Result<NewBucket> {
    let document = call.optional_document(MAX_DOCUMENT_BYTES).await?;
    match document.is_empty() {
        true => Ok(NewBucket::default()),
        false => read_configuration(&document, call.region),
    }
}

/// Answers CreateBucket.
pub async fn create(
    call: &Call<'_>,
    on: &Authorised<OnName>,
    asked: NewBucket,
) -> S3Result<Answer> {
    let name = on.name();
    // A rule that is S3's own: it keeps host names whole.
    if name.contains(".-") || name.contains("-.") {
        return Err(invalid_name(name));
    }
    let caller = on.caller().known()?;
    let ownership = chosen_ownership(call, on.caller())?;
    let with_lock = lock::of_new_bucket(call.headers)?;
    set_up(call, on, with_lock, &asked)?;
    let tags = asked.tags;
    if caller.names.contains_key(name) && call.model.bucket_of_key(caller, name)?.is_some() {
        // The key could not reach the new bucket by its name.
        return Err(S3Error::of_bucket(Code::BucketAlreadyExists, name));
    }
    let bucket_lock = with_lock.then(BucketLock::default);
    let created = call
        .model
        .create_bucket_for(name, caller, ownership, bucket_lock, tags.clone());
    match created.await {
        Ok(_) => {}
        Err(Error::BucketExists) => check_own(call, on, with_lock, &tags)?,
        Err(Error::InvalidName(_)) => return Err(invalid_name(name)),
        Err(Error::Conflict) => return Err(in_progress(name)),
        Err(error) => return Err(error.into()),
    }
    let mut answer = respond::empty(StatusCode::OK);
    respond::set(&mut answer, "location", &format!("/{name}"))?;
    respond::set(&mut answer, "x-amz-bucket-arn", &bucket_arn(name))?;
    Ok(answer)
}

/// Decides about what the request asks for beside the bucket, as the operations that set it.
fn set_up(call: &Call<'_>, on: &Authorised<OnName>, lock: bool, asked: &NewBucket) -> S3Result<()> {
    if lock {
        let with_lock = [
            Action::PutBucketObjectLockConfiguration,
            Action::PutBucketVersioning,
        ];
        auth::set_up(call, on, asked, &with_lock)?;
    }
    if call.headers.contains_key(super::OWNERSHIP_HEADER) {
        auth::set_up(call, on, asked, &[Action::PutBucketOwnershipControls])?;
    }
    if !asked.tags.is_empty() {
        auth::set_up(call, on, asked, &[Action::TagResource])?;
    }
    Ok(())
}

/// Returns the object ownership that the headers ask for. A new bucket blocks public lists, so that
/// only private ones can be asked for.
fn chosen_ownership(call: &Call<'_>, caller: &Caller) -> S3Result<Ownership> {
    let name = super::OWNERSHIP_HEADER;
    let ownership = match call.header(name)? {
        None => Ownership::BucketOwnerEnforced,
        Some(text) => Ownership::of_name(text).ok_or_else(|| {
            S3Error::argument(name, text, "Invalid x-amz-object-ownership header")
        })?,
    };
    let owner = || {
        Ok(Owner::of_key(
            caller.subject().map_or("", |subject| subject.id()),
        ))
    };
    let enforced = ownership == Ownership::BucketOwnerEnforced;
    let error = Code::InvalidBucketAclWithObjectOwnership;
    let acl = acl::of_headers(call.headers, enforced.then_some(error), owner)?;
    match acl.is_none_or(|acl| acl.is_private()) {
        true => Ok(ownership),
        false if enforced => Err(error.into()),
        false => Err(Code::InvalidBucketAclWithBlockPublicAccessError.into()),
    }
}

/// Returns the error for a bucket that others create or delete at the same time.
fn in_progress(name: &str) -> S3Error {
    S3Error::of_bucket(Code::OperationAborted, name)
}

fn invalid_name(name: &str) -> S3Error {
    S3Error::of_bucket(Code::InvalidBucketName, name)
}

/// Answers about a bucket that exists: in the first region its owner is told that all is well, as
/// S3 does.
fn check_own(
    call: &Call<'_>,
    on: &Authorised<OnName>,
    with_lock: bool,
    tags: &Tags,
) -> S3Result<()> {
    let name = on.name();
    let Some(bucket) = call.model.bucket(name)? else {
        // It was deleted a moment ago.
        return Err(in_progress(name));
    };
    let is_own = auth::manages(call, on.caller(), &bucket);
    // All is well only if the bucket has what was asked for.
    let asked = call.header(super::OWNERSHIP_HEADER)?;
    let has_ownership = asked.is_none_or(|asked| Ownership::of_name(asked) == bucket.ownership);
    let has_all = (bucket.lock.is_some() || !with_lock)
        && (tags.is_empty() || bucket.tags == *tags)
        && has_ownership;
    let code = match (is_own, call.region) {
        (true, FIRST_REGION) if has_all => return Ok(()),
        (true, _) => Code::BucketAlreadyOwnedByYou,
        (false, _) => Code::BucketAlreadyExists,
    };
    Err(S3Error::of_bucket(code, name))
}

/// Reads the configuration of a new bucket.
fn read_configuration(document: &[u8], region: &str) -> S3Result<NewBucket> {
    let root = xml::parse(document, "CreateBucketConfiguration")?;
    let known = ["LocationConstraint", "Location", "Bucket", "Tags"];
    let of_directory = |element: &Element| ["Location", "Bucket"].contains(&&*element.name);
    if root.only(&known)?.iter().any(of_directory) {
        return Err(S3Error::not_implemented(
            "A bucket configuration beyond LocationConstraint and Tags",
        ));
    }
    let tags = root.child("Tags")?.map(tagging::of_new_bucket);
    let tags = tags.transpose()?.unwrap_or_default();
    let asked = root.child_text("LocationConstraint")?.map(str::trim);
    // The old name of a region.
    let asked = asked.map(|asked| if asked == "EU" { "eu-west-1" } else { asked });
    match asked.filter(|asked| !asked.is_empty()) {
        Some(asked) if asked != region && !looks_like_region(asked) => {
            Err(S3Error::from(Code::InvalidLocationConstraint).with("LocationConstraint", asked))
        }
        Some(asked) if asked != region => {
            let why = format!(
                "The {asked} location constraint is incompatible for the region specific endpoint this request was sent to."
            );
            Err(S3Error::new(Code::IllegalLocationConstraintException, why))
        }
        asked => Ok(NewBucket {
            region: asked.map(str::to_owned),
            tags,
        }),
    }
}

/// Returns true for text of the form that names of AWS's regions have, such as `eu-central-1`.
fn looks_like_region(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let letters = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase());
    match parts.as_slice() {
        [area, middle @ .., number] if !middle.is_empty() => {
            area.len() == 2
                && [area].into_iter().chain(middle).all(letters)
                && number.parse::<u8>().is_ok()
        }
        _ => false,
    }
}

/// Answers HeadBucket.
pub fn head(call: &Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let mut answer = respond::empty(StatusCode::OK);
    respond::set(
        &mut answer,
        "x-amz-bucket-arn",
        &bucket_arn(&on.bucket().name),
    )?;
    respond::set(&mut answer, "x-amz-access-point-alias", "false")?;
    respond::set(&mut answer, "x-amz-bucket-region", call.region)?;
    Ok(answer)
}

/// Answers DeleteBucket.
pub async fn delete(call: &Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let name = &on.bucket().name;
    let has_versions = on.bucket().versioning != Versioning::Never;
    let named = |error: Error| match error {
        Error::Conflict => in_progress(name),
        // A listing of objects may be empty, so that the client needs to know where to look.
        Error::BucketNotEmpty if has_versions => {
            let why = "The bucket you tried to delete is not empty. You must delete all versions \
                       in the bucket.";
            S3Error::new(Code::BucketNotEmpty, why).with("BucketName", name)
        }
        error => S3Error::from(error).with("BucketName", name),
    };
    let deleted = call.model.delete_bucket(on.bucket());
    deleted.await.map_err(named)?;
    Ok(respond::empty(StatusCode::NO_CONTENT))
}

/// Answers GetBucketLocation.
pub fn location(call: &Call<'_>, _: &Authorised<OnBucket>) -> S3Result<Answer> {
    let mut xml = Writer::new("LocationConstraint");
    if call.region != FIRST_REGION {
        xml.characters(call.region);
    }
    Ok(respond::xml(xml))
}
