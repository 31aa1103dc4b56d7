//! ListenBucketNotification and ListenNotification: events of one bucket or of all, as they happen.
//! They are extensions of MinIO.
//!
//! Source: the clients: minio-go, minio-py and mc.

mod stream;

use std::time::Duration;

use archipel_base::Id;
use archipel_model::notification::is_listened_name;
use archipel_model::{Error, Interest};
use http::{HeaderValue, header};

use crate::s3::auth::{Authorised, Caller, OnBucket, OnEvents};
use crate::s3::call::Call;
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::respond::Answer;
use crate::s3::uri::Query;
use crate::serve::Endless;

use stream::{Again, Listening, Ping};

/// The longest text of a filter.
const MAX_FILTER_BYTES: usize = 1024;
/// The longest pause between two pings. Clients that are gone are noticed by the second one, and
/// proxies close connections on which nothing happens.
const LONGEST_PAUSE_S: u64 = 10;
/// The pause of clients that do not ask for one.
const USUAL_PAUSE: Duration = Duration::from_millis(500);

/// Answers ListenBucketNotification.
pub async fn on_bucket(call: &Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    begin(call, on.caller(), Some(on.bucket().id)).await
}

/// Answers ListenNotification.
pub async fn on_all(call: &Call<'_>, on: &Authorised<OnEvents>) -> S3Result<Answer> {
    begin(call, on.caller(), None).await
}

async fn begin(call: &Call<'_>, caller: &Caller, bucket: Option<Id>) -> S3Result<Answer> {
    let query = &call.target.query;
    let interest = Interest {
        bucket,
        events: events(query)?,
        prefix: filter(query, "prefix")?,
        suffix: filter(query, "suffix")?,
    };
    let ping = ping(query)?;
    let user = caller.subject().map_or("", |subject| subject.id());
    let listener = call.model.listen_to_events(user, interest).await;
    let listener = listener.map_err(|error| match error {
        Error::Busy(_) => S3Error::new(Code::SlowDown, "Too many clients listen to events."),
        error => error.into(),
    })?;
    let again = Again::of(call, caller, bucket);
    let mut answer = Answer::new(Listening::new(listener, ping, again).body());
    answer.extensions_mut().insert(Endless);
    let headers = answer.headers_mut();
    let kind = HeaderValue::from_static("text/event-stream");
    headers.insert(header::CONTENT_TYPE, kind);
    let now = HeaderValue::from_static("no-store");
    headers.insert(header::CACHE_CONTROL, now);
    // nginx collects answers otherwise.
    let unbuffered = HeaderValue::from_static("no");
    headers.insert("x-accel-buffering", unbuffered);
    Ok(answer)
}

/// Reads the names of events, each once. There is at least one, because the parameter chooses the
/// operation.
fn events(query: &Query) -> S3Result<Vec<String>> {
    let named = query.iter().filter(|(name, _)| *name == "events");
    let checked = named.map(|(_, event)| match is_listened_name(event) {
        true => Ok(event.to_owned()),
        false => {
            let why = "A specified event is not supported for notifications.";
            Err(S3Error::argument("events", event, why))
        }
    });
    let mut events = checked.collect::<S3Result<Vec<_>>>()?;
    events.sort_unstable();
    events.dedup();
    Ok(events)
}

fn filter(query: &Query, name: &'static str) -> S3Result<String> {
    let text = query.single(name)?.unwrap_or_default();
    if text.len() > MAX_FILTER_BYTES {
        let why = "Size of filter rule value cannot exceed 1024 bytes in UTF-8 representation";
        return Err(S3Error::argument(name, text, why));
    }
    Ok(text.to_owned())
}

/// Reads what is sent while nothing happens, and after which pause.
fn ping(query: &Query) -> S3Result<Ping> {
    let Some(text) = query.single_text("ping")? else {
        return Ok(Ping {
            pause: USUAL_PAUSE,
            text: b" ",
        });
    };
    match text.parse::<u32>() {
        Ok(seconds) if seconds > 0 => Ok(Ping {
            pause: Duration::from_secs(u64::from(seconds).min(LONGEST_PAUSE_S)),
            text: b"{\"Records\":null}\n",
        }),
        _ => {
            let why = "The pause between pings is a number of seconds from 1 on.";
            Err(S3Error::argument("ping", text, why))
        }
    }
}

#[cfg(test)]
mod tests;
