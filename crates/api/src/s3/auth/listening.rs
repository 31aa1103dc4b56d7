//! Listening to the events of all buckets: each bucket decides about its own.

use archipel_access::{Action, Decision};
use archipel_model::Bucket;

use super::check::AccessCheck;
use super::conditions::{self, On};
use super::{Authorised, Caller};
use crate::s3::call::Call;
use crate::s3::error::S3Result;

/// The events of the buckets that [`covers`](Authorised::covers) allows.
pub struct OnEvents;

impl Authorised<OnEvents> {
    /// Returns true if the caller may listen to a bucket.
    pub fn covers(&self, call: &Call<'_>, bucket: &Bucket) -> bool {
        let check = AccessCheck::new(call, &self.caller, bucket, None);
        may_listen(|action| check.decide(action, None))
    }
}

/// Returns true if a caller may listen to a bucket. Events tell the keys that a listing would, so a
/// denial of the listing counts.
pub(super) fn may_listen(decide: impl Fn(Action) -> Decision) -> bool {
    decide(Action::ListenBucketNotification).is_allowed()
        && !decide(Action::ListBucket).is_explicit_deny()
}

/// Decides whether the caller may listen to those buckets on which it has the right to.
///
/// # Errors
/// [`Code::AccessDenied`](crate::s3::error::Code::AccessDenied).
pub fn all_events(call: &Call<'_>, caller: &Caller) -> S3Result<Authorised<OnEvents>> {
    let context = conditions::of(call, caller, On::Bucket);
    caller.decide_alone(Action::ListenNotification, "", &context)?;
    Ok(Authorised {
        caller: caller.clone(),
        on: OnEvents,
    })
}
