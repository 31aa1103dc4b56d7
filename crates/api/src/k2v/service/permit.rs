//! The right of a caller to a bucket, and room for the request.

use std::sync::Arc;

use archipel_model::Bucket;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::SemaphorePermit;

use super::Shared;
use crate::k2v::route::Operation;
use crate::s3::auth::{self, Caller, Surroundings};
use crate::s3::endpoint::RequestHead;
use crate::s3::error::{Code, S3Error, S3Result};
use crate::serve::Stopping;

/// A caller's right to a bucket, and room for the request.
pub struct Permit<'a> {
    pub(super) shared: &'a Shared,
    pub(super) head: &'a RequestHead,
    pub(super) caller: Caller,
    pub(super) operation: Operation,
    pub(super) name: &'a str,
}

impl Permit<'_> {
    /// Returns the bucket if the caller may use it for the operation at present. This is the one
    /// place of this API that decides about permissions.
    ///
    /// # Errors
    /// [`Code::NoSuchBucket`], [`Code::AccessDenied`].
    pub fn bucket(&self) -> S3Result<Arc<Bucket>> {
        self.bucket_for(&self.caller)
    }

    /// Decides again, before a poll answers that has waited: the key may have been disabled or have
    /// expired, its user, a policy or the session may say otherwise, and the name may stand for
    /// another bucket.
    ///
    /// # Errors
    /// As for a new request.
    async fn confirm(&self, polled: &Bucket) -> S3Result<()> {
        let caller = self.caller.renewed(&self.shared.frontend.model).await?;
        match self.bucket_for(&caller)?.id == polled.id {
            true => Ok(()),
            false => Err(Code::NoSuchBucket.into()),
        }
    }

    fn bucket_for(&self, caller: &Caller) -> S3Result<Arc<Bucket>> {
        let (shared, action) = (self.shared, self.operation.action());
        let around = Surroundings::of(self.head, shared.clock.now_millis(), &shared.region);
        auth::granted(&shared.frontend.model, caller, &around, action, self.name)
    }

    /// Waits for room for a large request, whose document has come: slow clients hold no room.
    pub async fn batch(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.shared.batches.acquire().await.ok()
    }

    /// Waits for a poll of a bucket, and decides [again](Self::confirm).
    ///
    /// # Errors
    /// [`Code::SlowDown`] if too many polls wait, [`Code::ServiceUnavailable`] if the server stops
    /// meanwhile, and as for a new request.
    pub async fn poll<T>(
        &self,
        bucket: &Bucket,
        poll: impl Future<Output = Result<T, archipel_model::Error>>,
    ) -> S3Result<T> {
        let place = self.shared.polls.try_acquire();
        let place = place.map_err(|_| Code::SlowDown)?;
        self.shared.polling.inc();
        let polling = Polling {
            gauge: &self.shared.polling,
            _place: place,
        };
        let polled = tokio::select! {
            polled = poll => polled?,
            () = self.stopping() => {
                let why = "This node stops. Another one answers, or this one a little later.";
                return Err(S3Error::new(Code::ServiceUnavailable, why));
            }
        };
        drop(polling);
        self.confirm(bucket).await?;
        Ok(polled)
    }

    /// Waits until the server stops.
    async fn stopping(&self) {
        match self.head.parts.extensions.get::<Stopping>() {
            Some(stopping) => stopping.begins().await,
            None => std::future::pending().await,
        }
    }
}

/// A poll that waits.
struct Polling<'a> {
    gauge: &'a Gauge,
    _place: SemaphorePermit<'a>,
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}
