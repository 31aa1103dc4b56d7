//! The body of an answer to a client that listens: a document a line, as events happen.
//!
//! It ends when the client may not listen any more, and when the client was too slow. Nothing is
//! sent that was not decided about a moment ago.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::Id;
use archipel_base::clock::WallClock;
use archipel_model::{Event, EventListener, Model};
use bytes::Bytes;
use futures_util::stream;
use http::HeaderMap;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::s3::auth::{self, Caller};
use crate::s3::body::{self, Body, RequestBody};
use crate::s3::call::Call;
use crate::s3::endpoint::Learned;
use crate::s3::error::{Code, S3Result};
use crate::s3::owner::Owner;
use crate::s3::record;
use crate::s3::route::BucketOp;
use crate::s3::target::Target;

/// The time for which a decision counts while nothing happens.
const DECIDED: Duration = Duration::from_secs(2);
/// The most events that are sent at once.
const MOST: usize = 64;

/// The text that is sent while nothing happens, and the pause before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ping {
    pub pause: Duration,
    pub text: &'static [u8],
}

/// All that a decision about the request needs, to decide again.
pub struct Again {
    model: Model,
    clock: Arc<dyn WallClock>,
    region: String,
    target: Target,
    headers: HeaderMap,
    peer: Option<IpAddr>,
    scheme: &'static str,
    caller: Caller,
    /// The bucket that the client listens to; `None` for all.
    bucket: Option<Id>,
}

impl Again {
    pub fn of(call: &Call<'_>, caller: &Caller, bucket: Option<Id>) -> Again {
        Again {
            model: call.model.clone(),
            clock: call.clock.clone(),
            region: call.region.to_owned(),
            target: call.target.clone(),
            headers: call.headers.clone(),
            peer: call.peer,
            scheme: call.scheme,
            caller: caller.clone(),
            bucket,
        }
    }

    /// Returns those of these events that the client may see now.
    ///
    /// # Errors
    /// Those of the request, if it came now.
    async fn seen(&self, events: Vec<Arc<Event>>) -> S3Result<Vec<Arc<Event>>> {
        let caller = self.caller.renewed(&self.model).await?;
        let nothing = RequestBody::new(
            body::empty(),
            Duration::ZERO,
            self.model.cluster().buffers(),
        );
        let (region, headers) = (&self.region, &self.headers);
        let (model, target) = (&self.model, &self.target);
        let mut unused = Learned::default();
        let mut call = Call::new(
            model,
            &self.clock,
            region,
            target,
            headers,
            nothing,
            &mut unused,
        );
        call.peer = self.peer;
        call.scheme = self.scheme;
        let Some(bucket) = self.bucket else {
            return of_all(&call, &caller, events).await;
        };
        let name = self.target.bucket.as_deref().unwrap_or_default();
        let op = BucketOp::ListenBucketNotification;
        let on = auth::bucket(&call, &caller, op, name)?;
        match on.bucket().id == bucket {
            true => Ok(events),
            // Another bucket has the name now.
            false => Err(Code::NoSuchBucket.into()),
        }
    }
}

/// Returns those of these events whose buckets the caller may listen to.
async fn of_all(
    call: &Call<'_>,
    caller: &Caller,
    events: Vec<Arc<Event>>,
) -> S3Result<Vec<Arc<Event>>> {
    let on = auth::all_events(call, caller)?;
    let mut decided: BTreeMap<Id, bool> = BTreeMap::new();
    let mut seen = Vec::new();
    for event in events {
        let is_seen = match decided.get(&event.bucket_id) {
            Some(is_seen) => *is_seen,
            None => {
                // A bucket that cannot be found is most likely deleted. Its events are not seen;
                // others are.
                let found = call.model.find_bucket(&event.bucket).await.ok().flatten();
                let found = found.filter(|bucket| bucket.id == event.bucket_id);
                found.is_some_and(|bucket| on.covers(call, &bucket))
            }
        };
        decided.insert(event.bucket_id, is_seen);
        seen.extend(is_seen.then_some(event));
    }
    Ok(seen)
}

/// A client that listens.
pub struct Listening {
    listener: EventListener,
    ping: Ping,
    again: Again,
    /// The time of the next decision.
    decide_at: Instant,
}

impl Listening {
    pub fn new(listener: EventListener, ping: Ping, again: Again) -> Listening {
        Listening {
            listener,
            ping,
            again,
            decide_at: Instant::now() + DECIDED,
        }
    }

    /// Returns the body that tells the client.
    pub fn body(self) -> Body {
        let pieces = stream::unfold(self, |mut listening| async move {
            let piece = listening.next().await?;
            Some((Ok(Frame::data(piece)), listening))
        });
        StreamBody::new(pieces).boxed_unsync()
    }

    /// Returns the next piece; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        let ping_at = Instant::now() + self.ping.pause;
        loop {
            let events = tokio::select! {
                // In this order: a client that may see none of many events gets pings, too.
                biased;
                () = sleep_until(ping_at) => return Some(Bytes::from_static(self.ping.text)),
                events = self.listener.next(MOST) => match events.is_empty() {
                    true => return None,
                    false => events,
                },
                () = sleep_until(self.decide_at) => Vec::new(),
            };
            let seen = match self.again.seen(events).await {
                Ok(seen) => seen,
                Err(error) => {
                    let code = error.code().as_str();
                    tracing::debug!(code, "a client may not listen any more");
                    return None;
                }
            };
            self.decide_at = Instant::now() + DECIDED;
            if !seen.is_empty() {
                return Some(self.lines(&seen));
            }
        }
    }

    fn lines(&self, events: &[Arc<Event>]) -> Bytes {
        let mut lines = String::new();
        for event in events {
            let owner = event.principal.as_deref().map(Owner::of_key);
            let principal = owner.as_ref().map(|owner| owner.id());
            let record = record::for_listener(event, &self.again.region, principal);
            lines.push_str(&json!({ "Records": [record] }).to_string());
            lines.push('\n');
        }
        lines.into()
    }
}
