//! Slow and full disks.
//!
//! On instant disks a transaction is committed as soon as it is asked for. On others it waits, for
//! seconds at times, and further ones gather, which are committed with it. Reads wait, too. So
//! anything may happen between the check of a request and the look at the rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use archipel_storage::pool::{Pace, Pool, Work};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::world::World;
use crate::rng::Rng;

/// The speed of the disks of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speed {
    /// Nothing waits.
    Instant,
    /// Reads take up to a millisecond, commits up to ten.
    Usual,
    /// Now and then a disk takes seconds for each commit.
    Slow,
}

/// The room on a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Room {
    /// Enough.
    Free = 0,
    /// Only what is kept for deletions.
    Reserve = 1,
    /// None: commits fail.
    None = 2,
}

/// The state of a machine's disks.
pub struct Condition {
    speed: Speed,
    rng: Mutex<Rng>,
    slow_until: Mutex<Instant>,
    room: AtomicU8,
}

impl Condition {
    /// Returns the state of good disks.
    pub fn new(speed: Speed, rng: Rng) -> Arc<Condition> {
        Arc::new(Condition {
            speed,
            rng: Mutex::new(rng),
            slow_until: Mutex::new(Instant::now()),
            room: AtomicU8::new(Room::Free as u8),
        })
    }

    /// Returns the pool of a store on these disks.
    pub fn pool(self: &Arc<Condition>) -> Pool {
        match self.speed {
            Speed::Instant => Pool::inline(),
            Speed::Usual | Speed::Slow => Pool::paced(self.clone()),
        }
    }

    /// Lets commits take seconds for a while.
    fn slow_down(&self, time: Duration) {
        *self.slow_until.lock() = Instant::now() + time;
    }

    /// Sets the room for the metadata.
    pub fn set_room(&self, room: Room) {
        self.room.store(room as u8, Ordering::SeqCst);
    }

    /// Returns true if the metadata have no room for more rows.
    pub fn is_short(&self) -> bool {
        self.room.load(Ordering::SeqCst) >= Room::Reserve as u8
    }

    /// Returns true if commits fail.
    pub fn is_full(&self) -> bool {
        self.room.load(Ordering::SeqCst) >= Room::None as u8
    }

    fn pause(&self, work: Work) -> Duration {
        let is_slow = *self.slow_until.lock() > Instant::now();
        let mut rng = self.rng.lock();
        let millis = match (work, is_slow) {
            (Work::Job, false) => rng.between(0, 1),
            (Work::Job, true) => rng.between(0, 300),
            (Work::Commit, false) => rng.between(0, 10),
            (Work::Commit, true) => rng.between(500, 8_000),
        };
        Duration::from_millis(millis)
    }
}

impl Pace for Condition {
    fn later(&self, work: Work, job: Box<dyn FnOnce() + Send>) {
        let pause = self.pause(work);
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            job();
        });
    }
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Slows disks down and fills them until it is time to stop.
pub async fn wear(world: Arc<World>, mut rng: Rng) {
    while !world.is_calm() {
        tokio::time::sleep(Duration::from_millis(rng.between(100, 6_000))).await;
        let index = rng.below(world.machines.len() as u64) as usize;
        let machine = &world.machines[index];
        match rng.below(100) {
            0..50 if world.style.speed == Speed::Slow => {
                let time = secs(rng.between(1, 20));
                world.note(format!("the disks of {index} are slow for {time:?}"));
                world.record().counts.slow_disks += 1;
                machine.condition.slow_down(time);
            }
            50..75 if world.style.fills => {
                let room = [Room::Reserve, Room::Reserve, Room::None][rng.below(3) as usize];
                world.note(format!("the disks of {index} have room: {room:?}"));
                world.record().counts.full_disks += 1;
                machine.set_room(room);
            }
            // Mostly one is full, at times several.
            75.. if world.style.fills => free_all(&world),
            _ => {}
        }
    }
}

/// Makes room on all disks.
pub fn free_all(world: &World) {
    world.note("all disks have room");
    for machine in &world.machines {
        machine.set_room(Room::Free);
        machine.condition.slow_down(Duration::ZERO);
    }
}
