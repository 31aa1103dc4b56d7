//! The checks of K2V items at rest.

use std::time::Duration;

use tokio::time::Instant;

use super::{SKS, call, name, read, reference, write};
use crate::nodes::world::World;

/// The longest time after which a poll tells a change at rest.
const SOON: Duration = Duration::from_secs(20);

/// Judges all items at rest.
pub async fn judge(world: &World) {
    if !world.style.k2v {
        return;
    }
    let serving = world.serving();
    for machine in serving.iter().copied() {
        for sk in SKS {
            if read(world, machine, sk).await.is_none() {
                world.violation(format!(
                    "{sk} cannot be read through machine {machine} at rest"
                ));
            }
        }
    }
    hear(world, &serving).await;
    let histories = world.record().items.histories.clone();
    for (sk, history) in histories {
        if let Some(fault) = history.fault() {
            world.violation(format!("item {sk}: {fault}"));
        }
    }
}

/// Checks that polls at all machines hear of a change at one of them.
async fn hear(world: &World, serving: &[usize]) {
    let sk = SKS[0];
    let Some(first) = serving.first().copied() else {
        return;
    };
    let Some(mut seen) = read(world, first, sk).await else {
        return;
    };
    if seen.token.is_none() {
        write(world, first, vec![(sk, seen, false)]).await;
        seen = read(world, first, sk).await.unwrap_or_default();
    }
    let Some(token) = seen.token.clone() else {
        return world.violation(format!("{sk} cannot be written at rest"));
    };
    let time = 4 * SOON;
    let poll = async |machine: usize| {
        let polled = call(world, machine, 2 * time, async |model, bucket| {
            model.poll_item(bucket, &name(sk), &token, time).await
        });
        (machine, polled.await, Instant::now())
    };
    let polls = futures_util::future::join_all(serving.iter().copied().map(poll));
    let change = async {
        tokio::time::sleep(SOON).await;
        write(world, first, vec![(sk, seen.clone(), false)]).await;
        Instant::now()
    };
    let (polled, changed) = futures_util::join!(polls, change);
    for (machine, item, at) in polled {
        let is_told = item
            .flatten()
            .is_some_and(|item| reference::values(&item) != seen.values);
        if !is_told || at.saturating_duration_since(changed) > SOON {
            world.violation(format!(
                "a poll of {sk} at machine {machine} heard nothing at rest"
            ));
        }
    }
}
