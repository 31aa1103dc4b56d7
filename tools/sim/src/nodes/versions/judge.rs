//! The checks of versions at rest.

use std::time::Duration;

use super::listings::{self, Shown};
use super::reference::{Call, Reply};
use super::search::{self, Answer};
use super::{KEYS, Of, act, expires};
use crate::nodes::world::World;

/// The time in which lifecycle rules remove what they are for, once all faults are over.
const PATIENCE: Duration = Duration::from_secs(1800);
const LOOK: Duration = Duration::from_secs(20);

/// Judges all versions at rest.
pub async fn judge(world: &World) {
    if world.style.versions.is_none() {
        return;
    }
    for key in KEYS {
        if expires(world, key) {
            expire(world, key).await;
        }
        look_through(world, key).await;
        let record = world.record();
        let history = record.versions.history(key);
        let shown = record.versions.shown(key);
        let pages = record.versions.pages.get(key).cloned().unwrap_or_default();
        drop(record);
        let lines = || {
            history
                .iter()
                .map(|event| format!("\n    {event:?}"))
                .collect::<String>()
        };
        match search::explain(&history, &shown, expires(world, key)) {
            Answer::Possible => {}
            Answer::Impossible => world.violation(format!(
                "the versions of {key} cannot be explained:{}",
                lines()
            )),
            Answer::CutOff => world.violation(format!(
                "nobody knows about the versions of {key}:{}",
                lines()
            )),
        }
        for page in pages {
            if let Some(fault) = listings::fault(&page, &history, expires(world, key)) {
                world.violation(format!("versions of {key}: {fault}: {page:?}{}", lines()));
            }
        }
    }
}

/// Judges that all machines list the same versions, once replicas are equal. Lifecycle rules may
/// remove others at any time.
pub async fn agree(world: &World) {
    if world.style.versions.is_none() {
        return;
    }
    for key in KEYS {
        let expires = expires(world, key);
        list_everywhere(world, key, |shown| {
            !expires || shown.is_latest || shown.held
        })
        .await;
    }
}

/// Lists the versions of a key through all machines, and reads each version through one of them. A
/// write without an answer shows or not, as long as replicas are not equal.
async fn look_through(world: &World, key: &'static str) {
    let history = world.record().versions.history(key);
    let is_made = |shown: &Shown| {
        let mut replies = history.iter().filter_map(|event| event.reply);
        replies.any(|(_, reply)| reply == Reply::Made(shown.id))
    };
    list_everywhere(world, key, is_made).await;
    let serving = world.serving();
    for machine in serving.iter().copied() {
        if !act::operate(world, machine, Of::Key(key), Call::Get).await {
            world.violation(format!(
                "{key} cannot be read through machine {machine} at rest"
            ));
        }
    }
    let named = world.record().versions.shown(key);
    let mut ids: Vec<_> = named.into_iter().map(|(id, _)| id).collect();
    ids.dedup();
    let mut machines = serving.iter().copied().cycle();
    for id in ids {
        let Some(machine) = machines.next() else {
            return;
        };
        if !act::operate(world, machine, Of::Key(key), Call::GetVersion(id)).await {
            world.violation(format!(
                "version {id} of {key} cannot be read through machine {machine} at rest"
            ));
        }
    }
}

/// Lists the versions of a key through all machines, and compares those that count.
async fn list_everywhere(world: &World, key: &'static str, counts: impl Fn(&Shown) -> bool) {
    let mut first: Option<Vec<Shown>> = None;
    for machine in world.serving() {
        let Some(mut listed) = act::list(world, machine, key).await else {
            world.violation(format!(
                "{key} cannot be listed through machine {machine} at rest"
            ));
            continue;
        };
        listed.retain(&counts);
        match &first {
            None => first = Some(listed),
            Some(first) if *first == listed => {}
            Some(first) => world.violation(format!(
                "the versions of {key} are {first:?} at the first machine and {listed:?} at machine {machine} at rest"
            )),
        }
    }
}

/// Waits until no version is left that a lifecycle rule removes.
async fn expire(world: &World, key: &'static str) {
    let mut waited = Duration::ZERO;
    loop {
        let Some(machine) = world.serving().first().copied() else {
            return;
        };
        let listed = act::list(world, machine, key).await.unwrap_or_default();
        let old: Vec<_> = listed
            .iter()
            .filter(|shown| !shown.is_latest && !shown.held)
            .collect();
        if old.is_empty() {
            return;
        }
        if waited >= PATIENCE {
            let models = world.machines.iter().filter_map(|machine| machine.model());
            let walks: Vec<_> = models
                .map(|model| (model.cluster().is_time_known(), model.expiry_status()))
                .collect();
            return world.violation(format!(
                "old versions of {key} stay: {old:?}; walks: {walks:?}"
            ));
        }
        tokio::time::sleep(LOOK).await;
        waited += LOOK;
    }
}
