//! Clients: who they are, and how they said so.

use std::sync::{Arc, OnceLock};

use archipel_access::{Action, Context, Grants, Inputs, Principal, Request, decide};
use archipel_model::AccessKey;

use crate::s3::error::{Code, S3Result};
use crate::s3::owner::Owner;

/// How a client proved who it is.
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
    key: Arc<AccessKey>,
    credential: Credential,
    canonical_id: OnceLock<String>,
}

impl Caller {
    /// Wraps a key that [`Verifier`](crate::s3::sigv4::Verifier) returned for this request.
    pub fn verified(key: Arc<AccessKey>, credential: Credential) -> Caller {
        Caller(Some(Arc::new(Verified {
            key,
            credential,
            canonical_id: OnceLock::new(),
        })))
    }

    /// A client that presented no signature.
    pub fn anonymous() -> Caller {
        Caller(None)
    }

    /// The access key; `None` for an anonymous client.
    pub fn key(&self) -> Option<&AccessKey> {
        self.0.as_deref().map(|verified| &*verified.key)
    }

    /// The canonical user id; `None` for an anonymous client.
    pub fn canonical_id(&self) -> Option<&str> {
        let id = |key: &AccessKey| Owner::of_key(&key.id).id().to_owned();
        let verified = self.0.as_deref()?;
        Some(verified.canonical_id.get_or_init(|| id(&verified.key)))
    }

    /// How the client proved who it is; `None` for an anonymous client.
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
    pub(super) fn decide_alone(&self, action: Action, bucket: &str) -> S3Result<()> {
        let principal = match self.key() {
            Some(key) => Principal::User {
                name: &key.id,
                canonical_id: None,
            },
            None => Principal::Anonymous,
        };
        let inputs = Inputs {
            grants: Grants {
                create_buckets: self.key().is_some_and(|key| key.may_create_buckets),
                list_buckets: self.key().is_some(),
                ..Grants::default()
            },
            ..Inputs::default()
        };
        let context = Context::of(principal);
        let request = Request {
            principal,
            action,
            bucket,
            key: None,
            context: &context,
        };
        match decide(&request, &inputs).is_allowed() {
            true => Ok(()),
            false => Err(Code::AccessDenied.into()),
        }
    }
}
