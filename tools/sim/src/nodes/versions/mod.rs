//! A bucket whose versioning is enabled and suspended, or which gets object lock, while clients
//! write, delete, hold and read versions of its objects through any machine. Lifecycle rules may
//! remove versions that are not current.
//!
//! | module | what it holds |
//! |---|---|
//! | [`act`] | the requests of clients, and the answers of machines |
//! | [`judge`] | the checks at rest |
//! | [`listings`] | the check of listings of versions |
//! | [`reference`] | a reference model of S3's versioning |
//! | [`retained`] | the check that nothing removes a retained version before its time |
//! | [`search`] | the search for an order of operations that agrees with it |
//! | [`state`] | the state of that model |

mod act;
mod judge;
pub mod listings;
pub mod reference;
mod retained;
mod search;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use archipel_model::{
    Error, Lifecycle, LifecycleFilter, LifecycleRule, Model, NoncurrentExpiration, VersionId,
};
use tokio::task::JoinHandle;

use self::listings::Page;
use self::reference::{Call, Event, Reply, Stored};
use self::retained::Retained;
use super::world::{self, World};
use crate::rng::Rng;

pub use judge::{agree, judge};

/// The bucket.
const BUCKET: &str = "versioned";
/// The keys of its objects.
const KEYS: [&str; 2] = ["v", "old/w"];
/// The keys with this prefix have the lifecycle rule, if the run has one.
const RULED: &str = "old/";
const CLIENTS: u64 = 3;
/// The most operations on a key before the run is judged.
const MOST: usize = 60;
/// The most operations on a key whose result nobody knows. The search tries all their orders.
const MOST_LOST: usize = 7;
/// The most changes of the bucket's settings.
const MOST_CHANGES: usize = 10;
/// The length of a day of lifecycle rules.
pub const DAY: Duration = Duration::from_secs(20);

/// The settings of the bucket in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    /// True if the bucket gets object lock. Otherwise versioning is enabled and suspended again and
    /// again.
    pub locks: bool,
    /// True if a lifecycle rule removes versions that are not current.
    pub expires: bool,
}

impl Kind {
    /// Returns the kind of the run of a seed, or none. The choice leaves all other choices of the
    /// seed as they are.
    pub fn of(seed: u64) -> Option<Kind> {
        let mut rng = Rng::new(seed ^ 0x7665_7273_696f_6e73);
        rng.chance(40).then(|| Kind {
            locks: rng.chance(50),
            expires: rng.chance(40),
        })
    }
}

/// One operation.
#[derive(Clone, Copy, Debug)]
struct Happened {
    call: Call,
    called: u64,
    reply: Option<(u64, Reply)>,
    /// True if it certainly took no effect.
    void: bool,
}

/// The answers about the bucket.
#[derive(Debug, Default)]
pub struct Versions {
    /// Counts the beginnings and ends of requests.
    moment: u64,
    keys: BTreeMap<&'static str, Vec<Happened>>,
    settings: Vec<Happened>,
    pages: BTreeMap<&'static str, Vec<Page>>,
    /// The versions that answers named, with what they contain.
    named: BTreeMap<&'static str, BTreeMap<VersionId, BTreeSet<Stored>>>,
    /// The retentions that were acknowledged.
    retained: Retained,
    /// True once object lock is certainly configured.
    has_lock: bool,
}

/// The subject of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Of {
    Key(&'static str),
    Settings,
}

impl Versions {
    fn next(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    fn all(&mut self, of: Of) -> &mut Vec<Happened> {
        match of {
            Of::Key(key) => self.keys.entry(key).or_default(),
            Of::Settings => &mut self.settings,
        }
    }

    fn begin(&mut self, of: Of, call: Call) -> usize {
        let called = self.next();
        let all = self.all(of);
        all.push(Happened {
            call,
            called,
            reply: None,
            void: false,
        });
        all.len() - 1
    }

    /// Notes an answer: `None` if it took no effect.
    fn end(&mut self, of: Of, index: usize, reply: Option<Reply>) {
        let now = self.next();
        if let Some(happened) = self.all(of).get_mut(index) {
            match reply {
                Some(reply) => happened.reply = Some((now, reply)),
                None => happened.void = true,
            }
        }
    }

    /// Returns true if there is no room for more operations on a key.
    fn is_full(&self, key: &'static str) -> bool {
        let all = || self.keys.get(key).into_iter().flatten();
        let is_lost = |happened: &&Happened| {
            happened.reply.is_none() && !happened.void && !happened.call.is_read()
        };
        all().count() >= MOST || all().filter(is_lost).count() >= MOST_LOST
    }

    /// Notes that an answer named a version. Returns true if another answer named it with other
    /// content.
    fn name(&mut self, key: &'static str, id: VersionId, stored: Stored) -> bool {
        let named = self.named.entry(key).or_default().entry(id).or_default();
        named.insert(stored);
        id != VersionId::Null && named.len() > 1
    }

    /// Returns the operations on a key and on the settings.
    fn history(&self, key: &'static str) -> Vec<Event> {
        let of_key = self.keys.get(key).into_iter().flatten();
        let all = of_key
            .chain(&self.settings)
            .filter(|happened| !happened.void);
        let event = |happened: &Happened| Event {
            call: happened.call,
            called: happened.called,
            reply: happened.reply,
        };
        all.map(event).collect()
    }

    /// Returns the versions of a key that answers named.
    fn shown(&self, key: &'static str) -> Vec<(VersionId, Stored)> {
        let named = self.named.get(key).into_iter().flatten();
        let pairs = named.flat_map(|(id, all)| all.iter().map(|stored| (*id, *stored)));
        pairs.collect()
    }
}

/// Makes the bucket, if the run has it.
pub async fn set_up(world: &World, model: &Model) -> Result<(), Error> {
    let Some(kind) = world.style.versions else {
        return Ok(());
    };
    world::make(model, BUCKET).await?;
    if kind.expires {
        let rule = LifecycleRule {
            id: "old".into(),
            enabled: true,
            filter: LifecycleFilter {
                prefix: Some(RULED.into()),
                ..LifecycleFilter::default()
            },
            noncurrent: Some(NoncurrentExpiration {
                days: 1,
                keep: None,
            }),
            ..LifecycleRule::default()
        };
        let rules = Lifecycle {
            rules: vec![rule],
            ..Lifecycle::default()
        };
        world::surely(async || {
            let bucket = model
                .find_bucket(BUCKET)
                .await?
                .ok_or(Error::NoSuchBucket)?;
            model.set_lifecycle(&bucket, Some(rules.clone())).await
        })
        .await?;
    }
    Ok(())
}

/// Starts the clients, if the run has the bucket.
pub fn start(world: &Arc<World>) -> Vec<JoinHandle<()>> {
    let Some(kind) = world.style.versions else {
        return Vec::new();
    };
    let client = |number| {
        let (world, rng) = (world.clone(), world.rng(600 + number));
        tokio::spawn(async move { act::run(&world, kind, rng).await })
    };
    (0..CLIENTS).map(client).collect()
}

/// Returns true if lifecycle rules remove versions of a key.
fn expires(world: &World, key: &str) -> bool {
    world.style.expires() && key.starts_with(RULED)
}
