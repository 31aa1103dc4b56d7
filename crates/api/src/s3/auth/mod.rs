//! Authorisation. Handlers take [`Authorised`] values, and only this module makes them, after
//! [`archipel_access::decide`] allowed each action that the operation needs. No handler can
//! therefore bypass the signature or the decision.
//!
//! The tags and the access control list of an object may decide, too. Handlers read
//! objects through [`Authorised::open`] and [`Authorised::head`] only: they decide on the very
//! version that is read, and say of a missing key only what the caller may know.

mod account;
mod caller;
mod check;
pub(crate) mod conditions;
mod granted;
mod initiator;
mod listening;
mod new_bucket;
mod object;

use std::sync::Arc;

use archipel_access::Action;
use archipel_model::{Bucket, GivenVersion, Model, VersionId, check_bucket_name};

use super::call::{Call, version_of};
use super::copy_source::CopySourceName;
use super::error::{Code, S3Error, S3Result};
use super::owner::Owner;
use super::route::{BucketOp, ObjectOp};
use super::s3_control;

use check::AccessCheck;
use conditions::On;

pub use account::{OnAccount, account_block};
pub use caller::{Caller, Credential};
pub(crate) use conditions::Surroundings;
pub use conditions::check_headers;
pub use granted::{check_expected_owner, granted};
pub use listening::{OnEvents, all_events};
pub use new_bucket::NewBucket;

/// A resource on which the caller may do what its operation needs.
pub struct Authorised<T> {
    caller: Caller,
    on: T,
}

impl<T> Authorised<T> {
    /// Returns the caller.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }
}

/// The list of buckets; the handler filters it.
pub struct OnService {
    /// A policy of the caller allows it to see all buckets.
    all: bool,
}

/// The name of a bucket that is to be created.
pub struct OnName(String);

/// A bucket.
pub struct OnBucket(Arc<Bucket>);

/// A key in a bucket.
pub struct OnObject {
    bucket: Arc<Bucket>,
    key: String,
    /// The version that the request names.
    version: Option<GivenVersion>,
    /// Actions that are decided when the object is read.
    pending: Vec<Action>,
}

impl Authorised<OnService> {
    /// Returns true if the caller may see all buckets, not only those for which it has a grant.
    pub fn sees_all(&self) -> bool {
        self.on.all
    }
}

impl Authorised<OnName> {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.on.0
    }
}

impl Authorised<OnBucket> {
    /// Returns the bucket.
    pub fn bucket(&self) -> &Arc<Bucket> {
        &self.on.0
    }

    /// Decides about an action on one key of the bucket, for operations on many keys.
    ///
    /// # Errors
    /// [`Code::AccessDenied`].
    pub fn key(
        &self,
        call: &Call<'_>,
        action: Action,
        key: &str,
        version: Option<GivenVersion>,
    ) -> S3Result<Authorised<OnObject>> {
        let check = AccessCheck::new(call, &self.caller, self.bucket(), Some((key, version)));
        if !check.decide(action, None).is_allowed() {
            return Err(denied());
        }
        Ok(on_object(
            &self.caller,
            self.on.0.clone(),
            (key, version),
            Vec::new(),
        ))
    }
}

impl Authorised<OnObject> {
    /// Returns the bucket.
    pub fn bucket(&self) -> &Arc<Bucket> {
        &self.on.bucket
    }

    /// Returns the key.
    pub fn key(&self) -> &str {
        &self.on.key
    }

    /// Returns the version that the request names.
    pub fn named_version(&self) -> Option<GivenVersion> {
        self.on.version
    }

    /// Returns the id of the version that the request names.
    ///
    /// # Errors
    /// [`Code::NoSuchVersion`] for an id that no version has.
    pub fn version(&self) -> S3Result<Option<VersionId>> {
        match self.on.version {
            None => Ok(None),
            Some(GivenVersion::Id(id)) => Ok(Some(id)),
            Some(GivenVersion::Foreign) => Err(Code::NoSuchVersion.into()),
        }
    }
}

fn denied() -> S3Error {
    Code::AccessDenied.into()
}

/// Decides about the list of buckets. The answer shows those that the key has a permission on.
///
/// # Errors
/// [`Code::AccessDenied`] for anonymous clients.
pub fn service(call: &Call<'_>, caller: &Caller) -> S3Result<Authorised<OnService>> {
    let context = conditions::of(call, caller, On::Bucket);
    caller.decide_alone(Action::ListAllMyBuckets, "", &context)?;
    let all = caller.is_allowed_by_policies(Action::ListAllMyBuckets, "", &context);
    Ok(Authorised {
        caller: caller.clone(),
        on: OnService { all },
    })
}

/// Decides whether the caller may create a bucket.
///
/// # Errors
/// [`Code::AccessDenied`].
pub fn create(
    call: &Call<'_>,
    caller: &Caller,
    name: &str,
    asked: &NewBucket,
) -> S3Result<Authorised<OnName>> {
    let mut context = conditions::of(call, caller, On::Bucket);
    asked.describe(&mut context);
    caller.decide_alone(Action::CreateBucket, name, &context)?;
    Ok(Authorised {
        caller: caller.clone(),
        on: OnName(name.to_owned()),
    })
}

/// Decides whether the caller may also set up the bucket that it creates and will own.
///
/// # Errors
/// [`Code::AccessDenied`].
pub fn set_up(
    call: &Call<'_>,
    on: &Authorised<OnName>,
    asked: &NewBucket,
    actions: &[Action],
) -> S3Result<()> {
    let mut context = conditions::of(call, &on.caller, On::Bucket);
    asked.describe(&mut context);
    for action in actions {
        on.caller.decide_as_owner(*action, on.name(), &context)?;
    }
    Ok(())
}

/// Returns true if the caller may do with a bucket what its owner may, by a grant or by policies.
pub fn manages(call: &Call<'_>, caller: &Caller, bucket: &Bucket) -> bool {
    let check = AccessCheck::new(call, caller, bucket, None);
    check.decide(Action::PutBucketPolicy, None).is_allowed()
}

/// Decides whether the caller may do `op` with a bucket.
///
/// # Errors
/// [`Code::NoSuchBucket`], [`Code::AccessDenied`].
pub fn bucket(
    call: &Call<'_>,
    caller: &Caller,
    op: BucketOp,
    name: &str,
) -> S3Result<Authorised<OnBucket>> {
    let bucket = find(call, caller, name)?;
    let check = AccessCheck::new(call, caller, &bucket, None);
    let allowed = |action| check.decide(action, None);
    let fine = match op {
        // Each key is decided by itself. Anonymous clients need a policy for that.
        BucketOp::DeleteObjects => caller.key().is_some() || bucket.policy.is_some(),
        // HeadBucket says what GetBucketLocation says.
        BucketOp::HeadBucket => {
            let list = allowed(Action::ListBucket);
            let location = || allowed(Action::GetBucketLocation).is_allowed();
            list.is_allowed() || (!list.is_explicit_deny() && location())
        }
        BucketOp::ListenBucketNotification => listening::may_listen(allowed),
        op => op
            .actions()
            .iter()
            .all(|action| allowed(*action).is_allowed()),
    };
    if !fine {
        return Err(denied());
    }
    drop(check);
    let on = OnBucket(bucket);
    check_owner(call, "x-amz-expected-bucket-owner", &on.0)?;
    if call.target.control {
        check_owner(call, s3_control::ACCOUNT_HEADER, &on.0)?;
    }
    Ok(Authorised {
        caller: caller.clone(),
        on,
    })
}

/// Decides whether the caller may do `op` with a key.
///
/// # Errors
/// [`Code::NoSuchBucket`], [`Code::AccessDenied`]; [`Code::NoSuchKey`] if the object itself decides
/// and there is none.
pub async fn object(
    call: &Call<'_>,
    caller: &Caller,
    op: ObjectOp,
    name: &str,
    key: &str,
) -> S3Result<Authorised<OnObject>> {
    let bucket = find(call, caller, name)?;
    let version = call.version()?;
    let actions = op.actions().iter().map(|action| match version.is_some() {
        true => action.of_version(),
        false => *action,
    });
    let more = conditions::actions_of_headers(call, op)?;
    let actions: Vec<Action> = actions.chain(more).collect();
    let is_of_initiator = matches!(op, ObjectOp::AbortMultipartUpload | ObjectOp::ListParts);
    let on = match permit(call, caller, bucket.clone(), key, version, &actions) {
        Err(_)
            if is_of_initiator
                && initiator::is_caller(call, caller, &bucket, key, &actions).await? =>
        {
            on_object(caller, bucket, (key, version), Vec::new())
        }
        permitted => permitted?,
    };
    check_owner(call, "x-amz-expected-bucket-owner", on.bucket())?;
    if !on.on.pending.is_empty() && !op.reads_object() {
        if op.makes_object() {
            on.judge_replaced(call).await?;
        } else {
            // Decides, and forgets the object. An operation that changes it decides again, on what
            // it changes.
            on.head(call).await?;
        }
    }
    Ok(on)
}

/// Returns true if a policy that counts for requests of this caller to this bucket depends on a
/// condition key that begins so. The key is in lower case.
pub fn depends_on(call: &Call<'_>, caller: &Caller, bucket: &str, key: &str) -> S3Result<bool> {
    let bucket = named(call.model, caller, bucket)?;
    Ok(bucket.is_some_and(|bucket| AccessCheck::new(call, caller, &bucket, None).depends_on(key)))
}

/// Decides whether the caller may read the source of a copy.
///
/// # Errors
/// As [`object`].
pub fn source(
    call: &Call<'_>,
    caller: &Caller,
    source: &CopySourceName,
) -> S3Result<Authorised<OnObject>> {
    let bucket = find(call, caller, &source.bucket)?;
    let version = source.version.as_deref();
    let version = version
        .map(|text| version_of("versionId", text))
        .transpose()?;
    let action = match version {
        Some(_) => Action::GetObjectVersion,
        None => Action::GetObject,
    };
    let on = permit(call, caller, bucket, &source.key, version, &[action])?;
    check_owner(call, "x-amz-source-expected-bucket-owner", on.bucket())?;
    Ok(on)
}

/// Decides about actions on a key, as far as possible without the object.
fn permit(
    call: &Call<'_>,
    caller: &Caller,
    bucket: Arc<Bucket>,
    key: &str,
    version: Option<GivenVersion>,
    actions: &[Action],
) -> S3Result<Authorised<OnObject>> {
    let check = AccessCheck::new(call, caller, &bucket, Some((key, version)));
    let mut pending = Vec::new();
    for action in actions {
        let decision = check.decide(*action, None);
        if check.depends_on_object(*action, &decision) {
            pending.push(*action);
        } else if !decision.is_allowed() {
            return Err(denied());
        }
    }
    drop(check);
    Ok(on_object(caller, bucket, (key, version), pending))
}

fn on_object(
    caller: &Caller,
    bucket: Arc<Bucket>,
    (key, version): (&str, Option<GivenVersion>),
    pending: Vec<Action>,
) -> Authorised<OnObject> {
    Authorised {
        caller: caller.clone(),
        on: OnObject {
            bucket,
            key: key.to_owned(),
            version,
            pending,
        },
    }
}

/// Returns the bucket. An anonymous client does not learn that a bucket does not exist.
fn find(call: &Call<'_>, caller: &Caller, name: &str) -> S3Result<Arc<Bucket>> {
    let none = || {
        let code = match caller.key() {
            None => return denied(),
            Some(_) if check_bucket_name(name).is_err() => Code::InvalidBucketName,
            Some(_) => Code::NoSuchBucket,
        };
        S3Error::of_bucket(code, name)
    };
    named(call.model, caller, name)?.ok_or_else(none)
}

/// Returns the bucket that a name stands for when the caller says it.
pub(crate) fn named(model: &Model, caller: &Caller, name: &str) -> S3Result<Option<Arc<Bucket>>> {
    Ok(match caller.key() {
        Some(key) => model.bucket_of_key(key, name)?,
        None => model.bucket(name)?,
    })
}

/// Checks that a header names an owner of the bucket, if it is there.
fn check_owner(call: &Call<'_>, header: &str, bucket: &Bucket) -> S3Result<()> {
    match call.header(header)? {
        Some(id) if !Owner::matches(call.model, id, bucket)? => match Owner::may_be(id) {
            true => Err(denied()),
            false => Err(Code::InvalidBucketOwnerAWSAccountID.into()),
        },
        _ => Ok(()),
    }
}
