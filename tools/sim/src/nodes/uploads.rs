//! Uploads that clients share: each completes, aborts and looks at them through any machine.
//!
//! An upload has one content. Each completion gives the object another number, so that the history
//! of the object shows which completions took effect.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use archipel_model::{Bucket, Error, Model, ObjectHead, Part, Upload, UploadMeta};

use super::client::{self, MOST};
use super::content::{attempt, content_of, value_of};
use super::history::{End, History};
use super::machine::Called;
use super::world::{BUCKET, OTHER, World};
use crate::linear::{Call, Reply};
use crate::rng::Rng;

/// The number of uploads in progress from which on clients rather work on these.
const ENOUGH: usize = 4;
/// The number of completions of one upload.
const ATTEMPTS: u32 = 15;
/// The client that completes what is left at rest.
const LAST: usize = 90;
const PATIENCE: Duration = Duration::from_secs(60);

/// An upload that clients share, and what they know of it.
#[derive(Clone, Debug)]
pub struct Shared {
    bucket: &'static str,
    key: &'static str,
    upload: Upload,
    parts: Vec<Part>,
    /// The number of its content.
    base: u32,
    /// The number of completions that began.
    attempts: u32,
    /// True if an abort was acknowledged.
    aborted: bool,
    /// True if a completion was acknowledged.
    completed: bool,
    /// True if nobody knows what became of a completion or an abort.
    unknown: bool,
}

impl Shared {
    fn is_over(&self) -> bool {
        self.aborted || self.completed
    }
}

/// Begins an upload, or completes, aborts or looks at one.
pub async fn act(world: &World, client: usize, machine: usize, key: &'static str, rng: &mut Rng) {
    let open: Vec<usize> = {
        let record = world.record();
        let all = record.uploads.iter().enumerate();
        // Those that are over are met, too.
        all.filter(|(at, shared)| shared.key == key && (!shared.is_over() || at % 3 == 0))
            .map(|(at, _)| at)
            .collect()
    };
    if open.is_empty() || (open.len() < ENOUGH && rng.chance(30)) {
        return begin(world, machine, key, rng).await;
    }
    let at = open[rng.below(open.len() as u64) as usize];
    match rng.below(100) {
        0..60 => {
            let call = |value| match rng.below(100) {
                0..40 => Call::Write(value),
                40..80 => Call::Swap(None, value),
                _ => Call::Swap(client::likely(world, key, rng), value),
            };
            complete(world, client, machine, at, call).await;
        }
        60..75 => abort(world, machine, at).await,
        75..85 => trespass(world, machine, at, rng).await,
        _ => look(world, machine, at).await,
    }
}

/// Begins an upload, most often in the usual bucket. Its parts may go through other machines.
async fn begin(world: &World, machine: usize, key: &'static str, rng: &mut Rng) {
    let base = world.next_value();
    let piece = rng.between(1000, 400_000) as usize;
    let bucket = if rng.chance(30) { OTHER } else { BUCKET };
    let scatter = rng.chance(60);
    let through = |rng: &mut Rng| match scatter {
        true => &world.machines[rng.below(world.machines.len() as u64) as usize],
        false => &world.machines[machine],
    };
    let called = world.machines[machine].call(PATIENCE, |model| async move {
        let bucket = client::bucket(&model, bucket).await?;
        let upload = model.create_upload(&bucket, key, None, UploadMeta::default());
        Ok::<_, client::Fault>(upload.await?)
    });
    let Called::Answered(Ok(upload)) = called.await else {
        return;
    };
    world.note(format!(
        "upload {} of {key} of {bucket} has number {base}",
        upload.id
    ));
    for part in client::parts_of(base) {
        let upload = upload.clone();
        let sent = through(rng).call(PATIENCE, |model| async move {
            let bucket = client::bucket(&model, bucket).await?;
            let sent = client::send_part(&model, &bucket, &upload, part, piece);
            Ok::<_, client::Fault>(sent.await?)
        });
        if !matches!(sent.await, Called::Answered(Ok(()))) {
            return;
        }
    }
    let id = upload.id;
    let found = through(rng).call(PATIENCE, |model| async move {
        let bucket = client::bucket(&model, bucket).await?;
        let is_meant = |part: &Part| is_last(part, base);
        let sent = model.sent_parts(&bucket, key, &id, &is_meant);
        Ok::<_, client::Fault>(sent.await?)
    });
    let Called::Answered(Ok(parts)) = found.await else {
        return;
    };
    if parts.len() != 2 {
        return world.violation(format!(
            "{base} of {key} lacks a part that was acknowledged"
        ));
    }
    world.record().uploads.push(Shared {
        bucket,
        key,
        upload,
        parts,
        base,
        attempts: 0,
        aborted: false,
        completed: false,
        unknown: false,
    });
}

/// Returns true for the last attempt at a part that the client sent: its tag chooses among the
/// attempts.
fn is_last(part: &Part, base: u32) -> bool {
    let [second, _, first] = client::parts_of(base);
    let mut last = [first, second].into_iter();
    last.any(|sent| part.number == sent.number && part.etag == sent.etag)
}

/// Sends a part of another content under the id of an upload, in the bucket that the upload is not
/// in. It must be refused, and must not change the upload.
async fn trespass(world: &World, machine: usize, at: usize, rng: &mut Rng) {
    let of = shared(world, at);
    let value = world.next_value();
    let wrong = if of.bucket == OTHER { BUCKET } else { OTHER };
    let [_, _, mut part] = client::parts_of(value);
    if rng.chance(50) {
        part.number = 2;
    }
    let (key, base) = (of.key, of.base);
    let called = world.machines[machine].call(PATIENCE, |model| async move {
        let bucket = client::bucket(&model, wrong).await?;
        let sent = client::send_part(&model, &bucket, &of.upload, part, 100_000);
        Ok::<_, client::Fault>(sent.await?)
    });
    match called.await {
        Called::Answered(Ok(())) => {
            world.violation(format!("{base} of {key} took a part in {wrong}"));
        }
        Called::Answered(Err(client::Fault::Error(Error::NoSuchUpload)))
        | Called::Down
        | Called::Lost => {}
        Called::Answered(Err(client::Fault::Error(error))) => world.may_happen(&error),
        Called::Answered(Err(client::Fault::Wrong(why))) => world.violation(why),
    }
}

fn shared(world: &World, at: usize) -> Shared {
    world.record().uploads[at].clone()
}

/// Completes an upload. Returns true if that was acknowledged.
async fn complete(
    world: &World,
    client: usize,
    machine: usize,
    at: usize,
    call: impl FnOnce(Option<u32>) -> Call,
) -> bool {
    let of = shared(world, at);
    if of.attempts >= ATTEMPTS || world.record().of(of.bucket).of(of.key) >= MOST {
        return false;
    }
    let call = call(Some(attempt(of.base, of.attempts + 1)));
    let index = {
        let mut record = world.record();
        record.uploads[at].attempts += 1;
        record.of(of.bucket).begin(client, of.key, call)
    };
    let (name, key, base) = (of.bucket, of.key, of.base);
    world.note(format!(
        "client {client} → {machine}: {key} completes {base}: {call:?} #{index}"
    ));
    let saw: client::Saw = Arc::default();
    let condition = client::condition(call, &saw);
    let called = world.machines[machine].call(PATIENCE, |model| async move {
        let bucket = client::bucket(&model, of.bucket).await?;
        let meta = client::meta(client::new_value(call));
        let (upload, parts) = (&of.upload, &of.parts);
        let done = model.complete_upload(&bucket, upload, parts, meta, condition);
        match done.await {
            Err(Error::NoSuchUpload) => Ok((false, became(&model, &bucket, &of).await?)),
            done => done.map(|_| (true, true)).map_err(client::Fault::from),
        }
    });
    let (mut end, mut completed, mut unknown) = (End::Unknown, false, true);
    match called.await {
        Called::Answered(Ok((done, is_the_object))) => {
            (completed, unknown) = (is_the_object, false);
            end = if done {
                End::Answered(Reply::Done)
            } else {
                End::Void
            };
        }
        Called::Answered(Err(client::Fault::Error(Error::PreconditionFailed))) => {
            unknown = false;
            end = End::Answered(Reply::Saw(*saw.lock()));
        }
        Called::Answered(Err(client::Fault::Error(error))) => world.may_happen(&error),
        Called::Answered(Err(client::Fault::Wrong(why))) => world.violation(why),
        Called::Down => (end, unknown) = (End::Void, false),
        Called::Lost => {}
    }
    world.note(format!(
        "client {client} ← {machine}: {key} completes {base}: #{index} {end:?}"
    ));
    let mut record = world.record();
    record.counts.usage(end);
    record.of(name).end(key, index, end);
    record.uploads[at].completed |= completed;
    record.uploads[at].unknown |= unknown;
    completed
}

/// Returns true if the upload became the current object.
async fn became(model: &Model, bucket: &Bucket, of: &Shared) -> Result<bool, Error> {
    let is_of = |head: &ObjectHead| match value_of(&head.etag).map(content_of) == Some(of.base) {
        true => Ok(()),
        false => Err(Error::NoSuchUpload),
    };
    let by = model.completed_by(bucket, of.key, &of.upload.id, &is_of);
    Ok(by.await?.is_some())
}

async fn abort(world: &World, machine: usize, at: usize) {
    let of = shared(world, at);
    let (key, base) = (of.key, of.base);
    let called = world.machines[machine].call(PATIENCE, |model| async move {
        let bucket = client::bucket(&model, of.bucket).await?;
        let abort = model.abort_upload(&bucket, of.key, &of.upload.id);
        Ok::<_, client::Fault>(abort.await?)
    });
    let (mut aborted, mut unknown) = (false, true);
    match called.await {
        Called::Answered(Ok(())) => (aborted, unknown) = (true, false),
        Called::Answered(Err(client::Fault::Error(Error::NoSuchUpload))) | Called::Down => {
            unknown = false;
        }
        Called::Answered(Err(client::Fault::Error(error))) => world.may_happen(&error),
        Called::Answered(Err(client::Fault::Wrong(why))) => world.violation(why),
        Called::Lost => {}
    }
    world.note(format!("{machine}: {key} aborts {base}: {aborted}"));
    if aborted && world.record().uploads[at].aborted {
        world.violation(format!("{base} of {key} was aborted twice"));
    }
    let mut record = world.record();
    record.uploads[at].aborted |= aborted;
    record.uploads[at].unknown |= unknown;
}

async fn look(world: &World, machine: usize, at: usize) {
    let before = shared(world, at);
    let of = before.clone();
    let called = world.machines[machine].call(PATIENCE, |model| async move {
        let bucket = client::bucket(&model, of.bucket).await?;
        let found = model.upload(&bucket, of.key, &of.upload.id).await;
        Ok::<_, client::Fault>(found.map(drop)?)
    });
    if let Called::Answered(Ok(())) = called.await
        && before.is_over()
    {
        let (key, base) = (before.key, before.base);
        world.violation(format!(
            "{base} of {key} is in progress and was over before"
        ));
    }
}

/// Judges the uploads at rest, and completes those that must be in progress.
pub async fn judge(world: &World) {
    let count = world.record().uploads.len();
    let serving = world.serving();
    let mut usable = 0;
    for at in 0..count {
        let of = shared(world, at);
        let effects = effects(world.record().of(of.bucket), &of);
        let (key, base) = (of.key, of.base);
        if effects.len() > 1 {
            world.violation(format!("{base} of {key} was completed twice: {effects:?}"));
        }
        if of.aborted && (of.completed || !effects.is_empty()) {
            world.violation(format!(
                "{base} of {key} was aborted and completed: {effects:?}"
            ));
        }
        if of.is_over() || of.unknown || !effects.is_empty() {
            continue;
        }
        usable += 1;
        for machine in serving.iter().copied() {
            if listed(world, machine, &of).await != Some(of.parts.len()) {
                world.violation(format!("{base} of {key} is not in progress at {machine}"));
            }
        }
        let room = of.attempts < ATTEMPTS && world.record().of(of.bucket).of(key) < MOST;
        let machine = serving[at % serving.len()];
        if room && !complete(world, LAST, machine, at, Call::Write).await {
            world.violation(format!("{base} of {key} cannot be completed at rest"));
        }
    }
    world.note(format!(
        "{count} shared uploads, {usable} in progress at rest"
    ));
}

async fn listed(world: &World, machine: usize, of: &Shared) -> Option<usize> {
    let called = world.machines[machine].call(PATIENCE, |model| async move {
        let bucket = client::bucket(&model, of.bucket).await?;
        let upload = model.upload(&bucket, of.key, &of.upload.id).await?;
        let (parts, _) = model.list_parts(&bucket, &upload, 0, 10).await?;
        Ok::<_, client::Fault>(parts.len())
    });
    match called.await {
        Called::Answered(Ok(parts)) => Some(parts),
        _ => None,
    }
}

/// Returns the completions of an upload that certainly took effect.
fn effects(history: &History, of: &Shared) -> BTreeSet<u32> {
    let events = history.keys.get(of.key).into_iter().flatten();
    let values = events.filter_map(|event| match (event.reply?, event.call) {
        (Reply::Saw(saw), _) => saw,
        (Reply::Done, Call::Write(value) | Call::Swap(_, value)) => value,
        (Reply::Done, Call::Read) => None,
    });
    values
        .filter(|v| *v != of.base && content_of(*v) == of.base)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::content::content;

    #[test]
    fn numbers_of_completions_name_the_content() {
        assert_eq!(content_of(attempt(7, 3)), 7);
        assert_eq!(content(attempt(7, 3)), content(7));
        assert_ne!(attempt(7, 3), attempt(7, 4));
    }
}
