//! Bucket policies, Public Access Block, object ownership, request payment.

use archipel_access::policy::MAX_POLICY_BYTES;
use archipel_access::{Ownership, Policy, PublicAccessBlock};
use archipel_model::{BucketPolicy, Error, Model};
use http::{HeaderValue, StatusCode, header};

use crate::s3::auth::{Authorised, OnBucket};
use crate::s3::body;
use crate::s3::call::Call;
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::owner::Owner;
use crate::s3::respond::{self, Answer};
use crate::s3::xml::{self, Writer};

/// The largest body of PutBucketPolicy: a larger one is refused as a policy, not as a request.
const MAX_BODY_BYTES: usize = 4 * MAX_POLICY_BYTES;

/// The largest document of the other settings.
const MAX_DOCUMENT_BYTES: usize = 16 << 10;

/// The reason why a text is not accepted as a bucket's policy.
pub struct Unfit {
    /// The reason, for people.
    pub why: String,
    /// The principal that nobody is.
    principal: Option<String>,
}

/// Answers PutBucketPolicy.
pub async fn put(call: &mut Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let document = call.document(MAX_BODY_BYTES).await?;
    let malformed = |why: String| S3Error::new(Code::MalformedPolicy, why);
    let text = std::str::from_utf8(&document);
    let text = text.map_err(|_| malformed("Policies must be UTF-8.".into()))?;
    let bucket = on.bucket();
    let policy = match read(call.model, text, &bucket.name).await? {
        Ok(policy) => policy,
        Err(unfit) => {
            let error = malformed(unfit.why);
            return Err(match unfit.principal {
                Some(name) => error.with("Detail", name),
                None => error,
            });
        }
    };
    call.model.set_policy(bucket, Some(policy)).await?;
    Ok(respond::empty(StatusCode::NO_CONTENT))
}

/// Reads the policy of a bucket, and finds the access keys, users and roles that it names.
///
/// # Errors
/// As [`Model::find_bucket`].
pub async fn read(
    model: &Model,
    text: &str,
    bucket: &str,
) -> Result<Result<BucketPolicy, Unfit>, Error> {
    let policy = match Policy::parse(text, bucket) {
        Ok(policy) => policy,
        Err(why) => {
            return Ok(Err(Unfit {
                why: why.to_string(),
                principal: None,
            }));
        }
    };
    let nobody = |name: &str| {
        Ok(Err(Unfit {
            why: format!("Invalid principal in policy: there is no {name:?}"),
            principal: Some(name.to_owned()),
        }))
    };
    let mut named = match model.incarnations_of(&policy).await? {
        Ok(named) => named,
        Err(name) => return nobody(&name),
    };
    if policy.canonical_users().next().is_some() {
        let all = model.canonical_principals()?;
        for name in policy.canonical_users() {
            match all.iter().find(|one| Owner::of_key(&one.id).id() == name) {
                Some(found) => drop(named.insert(found.name.clone(), found.incarnation)),
                None => return nobody(name),
            }
        }
    }
    Ok(Ok(BucketPolicy::new(text.to_owned(), policy, named)))
}

/// Answers GetBucketPolicy.
pub fn get(on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let mut answer = respond::empty(StatusCode::OK);
    *answer.body_mut() = body::full(policy(on)?.text().to_owned());
    let kind = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(answer)
}

/// Answers DeleteBucketPolicy.
pub async fn delete(call: &Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    call.model.set_policy(on.bucket(), None).await?;
    Ok(respond::empty(StatusCode::NO_CONTENT))
}

/// Answers GetBucketPolicyStatus.
pub fn status(on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let mut xml = Writer::new("PolicyStatus");
    xml.value("IsPublic", policy(on)?.policy().is_public());
    Ok(respond::xml(xml))
}

fn policy(on: &Authorised<OnBucket>) -> S3Result<&BucketPolicy> {
    let policy = on.bucket().policy.as_ref();
    policy.ok_or_else(|| S3Error::of_bucket(Code::NoSuchBucketPolicy, &on.bucket().name))
}

/// Answers PutPublicAccessBlock.
pub async fn put_block(call: &mut Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let document = call.document(MAX_DOCUMENT_BYTES).await?;
    let root = xml::parse(&document, "PublicAccessBlockConfiguration")?;
    if root.only(&BLOCKS)?.is_empty() {
        let why = "Must specify at least one configuration.";
        return Err(S3Error::new(Code::InvalidRequest, why));
    }
    let mut values = [false; 4];
    for (name, value) in BLOCKS.iter().zip(&mut values) {
        *value = match root.child_text(name)?.map(str::trim) {
            None => false,
            Some(text) if text.eq_ignore_ascii_case("true") => true,
            Some(text) if text.eq_ignore_ascii_case("false") => false,
            Some(_) => return Err(Code::MalformedXML.into()),
        };
    }
    let block = PublicAccessBlock {
        block_public_acls: values[0],
        ignore_public_acls: values[1],
        block_public_policy: values[2],
        restrict_public_buckets: values[3],
    };
    let set = call.model.set_public_access_block(on.bucket(), Some(block));
    set.await?;
    Ok(respond::empty(StatusCode::OK))
}

/// The elements of a Public Access Block.
const BLOCKS: [&str; 4] = [
    "BlockPublicAcls",
    "IgnorePublicAcls",
    "BlockPublicPolicy",
    "RestrictPublicBuckets",
];

/// Answers GetPublicAccessBlock.
pub fn get_block(on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let code = Code::NoSuchPublicAccessBlockConfiguration;
    let none = || S3Error::of_bucket(code, &on.bucket().name);
    let block = on.bucket().public_access_block.ok_or_else(none)?;
    let mut xml = Writer::new("PublicAccessBlockConfiguration");
    let values = [
        block.block_public_acls,
        block.ignore_public_acls,
        block.block_public_policy,
        block.restrict_public_buckets,
    ];
    for (name, value) in BLOCKS.iter().zip(values) {
        xml.value(name, value);
    }
    Ok(respond::xml(xml))
}

/// Answers DeletePublicAccessBlock.
pub async fn delete_block(call: &Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let set = call.model.set_public_access_block(on.bucket(), None);
    set.await?;
    Ok(respond::empty(StatusCode::NO_CONTENT))
}

/// Answers PutBucketOwnershipControls.
pub async fn put_ownership(call: &mut Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let document = call.document(MAX_DOCUMENT_BYTES).await?;
    let root = xml::parse(&document, "OwnershipControls")?;
    let [rule] = root.only(&["Rule"])? else {
        return Err(Code::MalformedXML.into());
    };
    rule.only(&["ObjectOwnership"])?;
    let ownership = Ownership::of_name(rule.required_text("ObjectOwnership")?.trim());
    let ownership = ownership.ok_or(Code::MalformedXML)?;
    let set = call.model.set_ownership(on.bucket(), Some(ownership));
    set.await?;
    Ok(respond::empty(StatusCode::OK))
}

/// Answers GetBucketOwnershipControls.
pub fn get_ownership(on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let code = Code::OwnershipControlsNotFoundError;
    let none = || S3Error::of_bucket(code, &on.bucket().name);
    let ownership = on.bucket().ownership.ok_or_else(none)?;
    let mut xml = Writer::new("OwnershipControls");
    xml.open("Rule");
    xml.text("ObjectOwnership", ownership.name());
    Ok(respond::xml(xml))
}

/// Answers DeleteBucketOwnershipControls.
pub async fn delete_ownership(call: &Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    call.model.set_ownership(on.bucket(), None).await?;
    Ok(respond::empty(StatusCode::NO_CONTENT))
}

/// Answers GetBucketRequestPayment: the owner pays.
pub fn payment(_: &Authorised<OnBucket>) -> S3Result<Answer> {
    let mut xml = Writer::new("RequestPaymentConfiguration");
    xml.text("Payer", "BucketOwner");
    Ok(respond::xml(xml))
}

/// Answers PutBucketRequestPayment: nobody else can pay, since nothing is charged.
pub async fn put_payment(call: &mut Call<'_>, _: &Authorised<OnBucket>) -> S3Result<Answer> {
    let document = call.document(MAX_DOCUMENT_BYTES).await?;
    let root = xml::parse(&document, "RequestPaymentConfiguration")?;
    root.only(&["Payer"])?;
    match root.required_text("Payer")?.trim() {
        "BucketOwner" => Ok(respond::empty(StatusCode::OK)),
        "Requester" => Err(S3Error::not_implemented("Request payment")),
        _ => Err(Code::MalformedXML.into()),
    }
}
