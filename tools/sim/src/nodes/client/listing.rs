//! The listing of one page.

use archipel_model::{Error, ListEntry, ListQuery};

use super::{Fault, bucket, patience};
use crate::nodes::content::value_of;
use crate::nodes::history::Page;
use crate::nodes::machine::Called;
use crate::nodes::world::{BUCKET, World};
use crate::rng::Rng;

/// Lists one page. Returns true if there is another, and moves the query there.
pub async fn list_page(
    world: &World,
    client: usize,
    machine: usize,
    query: &mut ListQuery,
    rng: &mut Rng,
) -> bool {
    let from = world.record().history.tick();
    let asked = query.clone();
    let called = world.machines[machine].call(patience(rng), |model| async move {
        let bucket = bucket(&model, BUCKET).await?;
        Ok(model.list_objects(&bucket, &asked).await?)
    });
    let listing = match called.await {
        Called::Answered(Ok(listing)) => listing,
        Called::Answered(Err(Fault::Wrong(why))) => {
            world.violation(why);
            return false;
        }
        Called::Answered(Err(Fault::Error(
            Error::Unavailable(why) | Error::Unconfirmed(why) | Error::Busy(why),
        ))) => {
            world.note(format!("client {client} ← {machine}: no listing: {why}"));
            return false;
        }
        Called::Answered(Err(Fault::Error(error))) => {
            world.violation(format!("a listing gave an impossible error: {error:?}"));
            return false;
        }
        Called::Down | Called::Lost => return false,
    };
    let entry = |entry: ListEntry| match entry {
        ListEntry::Object { key, metadata } => (key, value_of(&metadata.etag)),
        ListEntry::Prefix(prefix) => (prefix, None),
    };
    let mut record = world.record();
    let page = Page {
        between: (from, record.history.tick()),
        prefix: query.prefix.clone(),
        delimiter: query.delimiter.clone(),
        after: query.after.clone(),
        truncated: listing.truncated,
        entries: listing.entries.into_iter().map(entry).collect(),
    };
    query.after = page.entries.last().map(|(name, _)| name.clone());
    record.history.pages.push(page.clone());
    record.counts.pages += 1;
    drop(record);
    world.note(format!("client {client} ← {machine}: {page:?}"));
    page.truncated
}
