//! The account itself, as S3 Control names it in a header.

use archipel_access::{ACCOUNT, Action};

use super::conditions::{self, On};
use super::{Authorised, Caller, denied};
use crate::s3::call::Call;
use crate::s3::error::S3Result;
use crate::s3::s3_control;

/// The account.
pub struct OnAccount;

/// Decides whether the caller may read the Public Access Block of the account.
///
/// # Errors
/// [`Code::AccessDenied`](crate::s3::error::Code::AccessDenied), also for another account.
pub fn account_block(call: &Call<'_>, caller: &Caller) -> S3Result<Authorised<OnAccount>> {
    let context = conditions::of(call, caller, On::Bucket);
    caller.decide_alone(Action::GetAccountPublicAccessBlock, "", &context)?;
    match call.header(s3_control::ACCOUNT_HEADER)? {
        Some(ACCOUNT) => Ok(Authorised {
            caller: caller.clone(),
            on: OnAccount,
        }),
        _ => Err(denied()),
    }
}
