//! Reading objects: the only way from an authorised key to what it holds.

use archipel_access::Action;
use archipel_model::{Error, ObjectHead, ObjectReader};

use super::{AccessCheck, Authorised, OnObject, denied};
use crate::s3::call::Call;
use crate::s3::error::{Code, S3Error, S3Result};

impl Authorised<OnObject> {
    /// Opens the object for reading, if the caller may read what is there.
    ///
    /// # Errors
    /// [`Code::NoSuchKey`], [`Code::AccessDenied`].
    pub async fn open(&self, call: &Call<'_>) -> S3Result<ObjectReader> {
        let (bucket, key) = (self.bucket(), self.key());
        let opened = match self.version()? {
            None => call.model.open_object(bucket, key).await,
            Some(id) => Box::pin(call.model.open_version(bucket, key, id)).await,
        };
        let reader = opened.map_err(|error| self.missing(call, error))?;
        self.judge(call, reader.metadata())?;
        Ok(reader)
    }

    /// Returns the object's metadata, if the caller may read what is there.
    ///
    /// # Errors
    /// As [`open`](Authorised::open).
    pub async fn head(&self, call: &Call<'_>) -> S3Result<ObjectHead> {
        let (bucket, key) = (self.bucket(), self.key());
        let head = match self.version()? {
            None => call.model.head_object(bucket, key).await,
            Some(id) => Box::pin(call.model.head_version(bucket, key, id)).await,
        };
        let head = head.map_err(|error| self.missing(call, error))?;
        self.judge(call, &head)?;
        Ok(head)
    }

    /// Decides about a further action on the object that was read.
    ///
    /// # Errors
    /// [`Code::AccessDenied`].
    pub fn also(&self, call: &Call<'_>, action: Action, object: &ObjectHead) -> S3Result<()> {
        match self.check(call).decide(action, Some(object)).is_allowed() {
            true => Ok(()),
            false => Err(denied()),
        }
    }

    /// Decides about a further action on the key, whatever it holds.
    ///
    /// # Errors
    /// [`Code::AccessDenied`].
    pub fn key_action(&self, call: &Call<'_>, action: Action) -> S3Result<()> {
        match self.check(call).decide(action, None).is_allowed() {
            true => Ok(()),
            false => Err(denied()),
        }
    }

    /// Decides about a further action of a write, also by the object that it replaces, if there is
    /// one.
    ///
    /// # Errors
    /// [`Code::AccessDenied`].
    pub async fn replacing_action(&self, call: &Call<'_>, action: Action) -> S3Result<()> {
        let waits = {
            let check = self.check(call);
            let decision = check.decide(action, None);
            check.depends_on_object(action, &decision)
        };
        if !waits {
            return self.key_action(call, action);
        }
        match call.model.head_object(self.bucket(), self.key()).await {
            Ok(object) => self.also(call, action, &object),
            Err(Error::NoSuchKey | Error::Deleted(_)) => self.key_action(call, action),
            Err(error) => Err(error.into()),
        }
    }

    /// Decides what waited for the object that a write replaces, if there is one.
    ///
    /// # Errors
    /// [`Code::AccessDenied`].
    pub(super) async fn judge_replaced(&self, call: &Call<'_>) -> S3Result<()> {
        match call.model.head_object(self.bucket(), self.key()).await {
            Ok(object) => self.judge(call, &object),
            Err(Error::NoSuchKey | Error::Deleted(_)) => {
                let mut pending = self.on.pending.iter();
                pending.try_for_each(|action| self.key_action(call, *action))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Decides what waited for the object.
    fn judge(&self, call: &Call<'_>, object: &ObjectHead) -> S3Result<()> {
        self.test(call)(object).map_err(|_| denied())
    }

    /// Returns the test that decides what waited for the object, for a change of it: while the
    /// request was read, the object may have become another one than the one that was decided on.
    pub fn test<'a>(
        &'a self,
        call: &Call<'_>,
    ) -> impl Fn(&ObjectHead) -> Result<(), Error> + use<'a> {
        let pending = &self.on.pending;
        let check = (!pending.is_empty()).then(|| self.check(call));
        move |object: &ObjectHead| {
            let Some(check) = &check else {
                return Ok(());
            };
            let allowed = |action: &Action| check.decide(*action, Some(object)).is_allowed();
            match pending.iter().all(allowed) {
                true => Ok(()),
                false => Err(Error::PreconditionFailed),
            }
        }
    }

    fn check<'a>(&'a self, call: &Call<'_>) -> AccessCheck<'a> {
        AccessCheck::new(
            call,
            &self.caller,
            self.bucket(),
            Some((self.key(), self.named_version())),
        )
    }

    /// Says that a key is missing only to callers who may list the bucket.
    pub fn missing(&self, call: &Call<'_>, error: Error) -> S3Error {
        let error = S3Error::from(error);
        if ![Code::NoSuchKey, Code::NoSuchVersion].contains(&error.code()) {
            return error;
        }
        match self.may_list(call) {
            true => error.with("Key", self.key()),
            false => denied(),
        }
    }

    /// Returns true if the caller may list the bucket, and so may know that a key is missing.
    pub fn may_list(&self, call: &Call<'_>) -> bool {
        // The condition keys are those of the object's request: it asked for no listing.
        let check = AccessCheck {
            key: None,
            ..self.check(call)
        };
        check.decide(Action::ListBucket, None).is_allowed()
    }
}
