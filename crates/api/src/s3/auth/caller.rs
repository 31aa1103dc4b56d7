//! Clients: their identities and credentials.

use std::sync::{Arc, OnceLock};

use archipel_access::{Action, Context, Grants, Inputs, Principal, Request, decide};
use archipel_model::{AccessKey, Model, Subject};

use crate::s3::error::{Code, S3Result};
use crate::s3::owner::Owner;
use crate::serve::Rates;

/// The kind of proof of a client's identity, as policies see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credential {
    /// `s3:signatureversion`: `AWS4-HMAC-SHA256` or `AWS`.
    pub version: &'static str,
    /// `s3:authType`: `REST-HEADER`, `REST-QUERY-STRING` or `POST`.
    pub kind: &'static str,
    /// `s3:signatureAge`: the milliseconds since a presigned request was signed.
    pub age_ms: Option<u64>,
}

/// A client: one whose signature was verified, or an anonymous one.
#[derive(Clone)]
pub struct Caller(Option<Arc<Verified>>);

struct Verified {
    subject: Subject,
    credential: Credential,
    canonical_id: OnceLock<String>,
}

impl Caller {
    /// Resolves the identity behind a key that [`Verifier`](crate::s3::sigv4::Verifier) verified,
    /// and counts the request against its limit.
    ///
    /// # Errors
    /// [`Code::InvalidAccessKeyId`] for a key that does not count (any more);
    /// [`Code::ExpiredToken`]; [`Code::SlowDown`] if the user sends too many requests.
    pub async fn verified(
        model: &Model,
        rates: &Rates,
        key: &Arc<AccessKey>,
        credential: Credential,
    ) -> S3Result<Caller> {
        let subject = model.subject(key).await?;
        let subject = subject.ok_or(Code::InvalidAccessKeyId)?;
        if !rates.admits_user(subject.id()) {
            return Err(Code::SlowDown.into());
        }
        Ok(Caller(Some(Arc::new(Verified {
            subject,
            credential,
            canonical_id: OnceLock::new(),
        }))))
    }

    /// Resolves the identity again, so that a long answer notices that its key was revoked.
    ///
    /// # Errors
    /// As [`Caller::verified`], and for a key that was deleted, also if there is another one of its
    /// id.
    pub async fn renewed(&self, model: &Model) -> S3Result<Caller> {
        let Some(verified) = self.0.as_deref() else {
            return Ok(Caller::anonymous());
        };
        let key = verified.subject.key();
        let now = match key.session {
            // It is in no row. The rows that it was made from are looked at below.
            Some(_) => Some(key.clone()),
            None => model.access_key(&key.id)?,
        };
        let now = now.filter(|now| now.incarnation == key.incarnation);
        let now = now.ok_or(Code::InvalidAccessKeyId)?;
        let subject = model.subject(&now).await?;
        Ok(Caller(Some(Arc::new(Verified {
            subject: subject.ok_or(Code::InvalidAccessKeyId)?,
            credential: verified.credential,
            canonical_id: OnceLock::new(),
        }))))
    }

    /// Makes a client that presented no signature.
    pub fn anonymous() -> Caller {
        Caller(None)
    }

    /// Returns the access key; `None` for an anonymous client.
    pub fn key(&self) -> Option<&AccessKey> {
        self.subject().map(|subject| &**subject.key())
    }

    /// Returns for whom the key acts; `None` for an anonymous client.
    pub fn subject(&self) -> Option<&Subject> {
        self.0.as_deref().map(|verified| &verified.subject)
    }

    /// Returns the principal.
    pub fn principal(&self) -> Principal<'_> {
        let subject = self.subject();
        subject.map_or(Principal::Anonymous, |subject| subject.principal(None))
    }

    /// Returns the canonical user id; `None` for an anonymous client.
    pub fn canonical_id(&self) -> Option<&str> {
        let verified = self.0.as_deref()?;
        let id = || Owner::of_key(verified.subject.id()).id().to_owned();
        Some(verified.canonical_id.get_or_init(id))
    }

    /// Returns how the client proved who it is; `None` for an anonymous client.
    pub fn credential(&self) -> Option<Credential> {
        self.0.as_deref().map(|verified| verified.credential)
    }

    /// Returns the access key.
    ///
    /// # Errors
    /// [`Code::AccessDenied`] for an anonymous client.
    pub fn known(&self) -> S3Result<&AccessKey> {
        Ok(self.key().ok_or(Code::AccessDenied)?)
    }

    /// Decides about an action on no existing bucket.
    pub(super) fn decide_alone(
        &self,
        action: Action,
        bucket: &str,
        context: &Context,
    ) -> S3Result<()> {
        let grants = Grants {
            create_buckets: self.key().is_some_and(|key| key.may_create_buckets),
            list_buckets: self.key().is_some(),
            ..Grants::default()
        };
        self.decide_with(grants, action, bucket, context)
    }

    /// Returns true if the policies of the caller alone allow an action on no existing bucket.
    pub(super) fn is_allowed_by_policies(
        &self,
        action: Action,
        bucket: &str,
        context: &Context,
    ) -> bool {
        self.decide_with(Grants::default(), action, bucket, context)
            .is_ok()
    }

    /// Decides about an action on a bucket as its owner, before it is there.
    pub(super) fn decide_as_owner(
        &self,
        action: Action,
        bucket: &str,
        context: &Context,
    ) -> S3Result<()> {
        let grants = Grants {
            owner: true,
            ..Grants::default()
        };
        self.decide_with(grants, action, bucket, context)
    }

    fn decide_with(
        &self,
        grants: Grants,
        action: Action,
        bucket: &str,
        context: &Context,
    ) -> S3Result<()> {
        let principal = self.principal();
        let inputs = Inputs {
            grants,
            identity: self.subject().map(Subject::identity),
            ..Inputs::default()
        };
        let request = Request {
            principal,
            action,
            bucket,
            key: None,
            context,
        };
        match decide(&request, &inputs).is_allowed() {
            true => Ok(()),
            false => Err(Code::AccessDenied.into()),
        }
    }
}
