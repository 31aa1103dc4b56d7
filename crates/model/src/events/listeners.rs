//! Clients that listen to events, at any node: each event of all nodes, as it happens.
//!
//! No guarantee: nothing is stored, and what a node tells while it is cut off may be lost. A node
//! [tells](Model::tell_listeners) its changes once they took effect, to the nodes that ask for
//! them. A node with listeners asks all others, with one call to each, however many listeners there
//! are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::{Id, boxed, codec};
use archipel_cluster::Relayed;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::Event;
use crate::Model;
use crate::error::Error;
use crate::notification::covers;

/// The most listeners of a node.
const MOST: usize = 256;
/// The most listeners of one user, so that the others find room.
const MOST_OF_ONE: usize = 64;
/// The most events that wait for one listener.
const WAITING: usize = 1000;
/// The time for which a new listener waits for other nodes, so that it hears what happens there
/// from now on.
const READY: Duration = Duration::from_secs(2);

/// The events that a listener wants.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Interest {
    /// The identity of the bucket; `None` for all buckets.
    pub bucket: Option<Id>,
    /// Names of events: see [`is_listened_name`](crate::notification::is_listened_name).
    pub events: Vec<String>,
    /// The beginning of the keys.
    pub prefix: String,
    /// The end of the keys.
    pub suffix: String,
}

impl Interest {
    fn includes(&self, event: &Event) -> bool {
        self.bucket.is_none_or(|bucket| bucket == event.bucket_id)
            && event.key.starts_with(&self.prefix)
            && event.key.ends_with(&self.suffix)
            && self.events.iter().any(|asked| covers(asked, &event.name))
    }
}

/// The listeners of this node.
#[derive(Default)]
pub(super) struct Listeners(Mutex<State>);

#[derive(Default)]
struct State {
    last: u64,
    all: BTreeMap<u64, Listener>,
    /// Runs while there are listeners.
    hearing: Option<Hearing>,
}

struct Listener {
    user: String,
    interest: Interest,
    /// `None` once the listener was too slow.
    sender: Option<mpsc::Sender<Arc<Event>>>,
}

/// The task that hears the events of all nodes.
struct Hearing {
    is_followed: watch::Receiver<bool>,
    task: JoinHandle<()>,
}

impl Drop for Hearing {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Listeners {
    /// Adds a listener.
    ///
    /// # Errors
    /// [`Error::Busy`] if there are too many.
    fn add(self: &Arc<Listeners>, user: &str, interest: Interest) -> Result<EventListener, Error> {
        let mut state = self.0.lock();
        let of_one = state.all.values().filter(|one| one.user == user);
        if state.all.len() >= MOST || of_one.count() >= MOST_OF_ONE {
            return Err(Error::Busy("too many clients listen to events".into()));
        }
        let (sender, events) = mpsc::channel(WAITING);
        state.last += 1;
        let number = state.last;
        let listener = Listener {
            user: user.to_owned(),
            interest,
            sender: Some(sender),
        };
        state.all.insert(number, listener);
        Ok(EventListener {
            listeners: self.clone(),
            number,
            events,
        })
    }

    /// Returns the flag that all nodes are followed. `begin` begins to follow them.
    fn hear(
        self: &Arc<Listeners>,
        begin: impl FnOnce() -> Relayed,
    ) -> Option<watch::Receiver<bool>> {
        let mut state = self.0.lock();
        if state.all.is_empty() {
            return None;
        }
        let hearing = state.hearing.get_or_insert_with(|| {
            let mut relayed = begin();
            let listeners = Arc::downgrade(self);
            Hearing {
                is_followed: relayed.is_followed(),
                task: tokio::spawn(async move {
                    while let Some(messages) = relayed.next().await
                        && let Some(listeners) = listeners.upgrade()
                    {
                        messages.iter().for_each(|one| listeners.pass_on(one));
                    }
                }),
            }
        });
        Some(hearing.is_followed.clone())
    }

    /// Gives an event to those who want it. One that does not take its events gets no more.
    fn pass_on(&self, message: &[u8]) {
        let event: Event = match codec::decode(message) {
            Ok(event) => event,
            Err(error) => {
                tracing::debug!(%error, "an event of another node cannot be read");
                return;
            }
        };
        let event = Arc::new(event);
        for listener in self.0.lock().all.values_mut() {
            if listener.interest.includes(&event)
                && let Some(sender) = &listener.sender
                && sender.try_send(event.clone()).is_err()
            {
                listener.sender = None;
            }
        }
    }

    fn remove(&self, number: u64) {
        let mut state = self.0.lock();
        state.all.remove(&number);
        if state.all.is_empty() {
            state.hearing = None;
        }
    }
}

/// A client that listens. It holds its place until it is dropped.
pub struct EventListener {
    listeners: Arc<Listeners>,
    number: u64,
    events: mpsc::Receiver<Arc<Event>>,
}

impl EventListener {
    /// Waits for events, and returns the next ones: at most `most`, or none if the listener was too
    /// slow and gets no more. No event is lost if the future is dropped.
    #[boxed]
    pub async fn next(&mut self, most: usize) -> Vec<Arc<Event>> {
        let mut events = Vec::new();
        self.events.recv_many(&mut events, most).await;
        events
    }
}

impl Drop for EventListener {
    fn drop(&mut self) {
        self.listeners.remove(self.number);
    }
}

impl Model {
    /// Begins to listen for a user. Returns once the other nodes tell what happens there, or 2 s
    /// later. `user` is the unique id, or empty for anonymous clients.
    ///
    /// # Errors
    /// [`Error::Busy`] if too many listen already.
    #[boxed]
    pub async fn listen_to_events(
        &self,
        user: &str,
        interest: Interest,
    ) -> Result<EventListener, Error> {
        let listeners = &self.inner.events.listeners;
        let listener = listeners.add(user, interest)?;
        if let Some(mut is_followed) = listeners.hear(|| self.cluster().follow_relays()) {
            let followed = is_followed.wait_for(|is_followed| *is_followed);
            // A node that does not answer for so long is heard later.
            let _ = tokio::time::timeout(READY, followed).await;
        }
        Ok(listener)
    }

    /// Returns how many clients listen to events at this node.
    pub fn event_listeners(&self) -> usize {
        self.inner.events.listeners.0.lock().all.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interest(events: &[&str], prefix: &str, suffix: &str) -> Interest {
        Interest {
            bucket: Some(Id([1; 16])),
            events: events.iter().map(|name| (*name).to_owned()).collect(),
            prefix: prefix.into(),
            suffix: suffix.into(),
        }
    }

    fn event(name: &str, key: &str) -> Event {
        Event {
            name: name.into(),
            key: key.into(),
            bucket_id: Id([1; 16]),
            ..Event::default()
        }
    }

    #[test]
    fn interest_chooses_buckets_names_and_keys() {
        let put = event("s3:ObjectCreated:Put", "photos/cat.jpg");
        let all = interest(&["s3:ObjectRemoved:*", "s3:ObjectCreated:*"], "", "");
        assert!(all.includes(&put));
        assert!(interest(&["s3:ObjectCreated:Put"], "photos/", ".jpg").includes(&put));
        assert!(!interest(&["s3:ObjectCreated:Copy"], "", "").includes(&put));
        assert!(!interest(&["s3:ObjectCreated:*"], "other/", "").includes(&put));
        assert!(!interest(&["s3:ObjectCreated:*"], "", ".png").includes(&put));
        let mut other = put.clone();
        other.bucket_id = Id([2; 16]);
        assert!(!all.includes(&other));
        let anywhere = Interest {
            bucket: None,
            ..all
        };
        assert!(anywhere.includes(&other));
    }

    #[tokio::test]
    async fn slow_listener_gets_no_more_and_others_do() {
        let listeners = Arc::new(Listeners::default());
        let all = interest(&["s3:ObjectCreated:*"], "", "");
        let mut slow = listeners.add("ann", all.clone()).unwrap();
        let mut fast = listeners.add("ben", all).unwrap();
        for n in 0..WAITING + 5 {
            let event = event("s3:ObjectCreated:Put", &n.to_string());
            listeners.pass_on(&codec::encode(&event));
            assert_eq!(fast.next(10).await[0].key, n.to_string());
        }
        listeners.pass_on(b"no event");
        assert_eq!(slow.next(2 * WAITING).await.len(), WAITING);
        assert!(slow.next(1).await.is_empty());
        let next = event("s3:ObjectCreated:Put", "next");
        listeners.pass_on(&codec::encode(&next));
        assert_eq!(*fast.next(10).await[0], next);
    }

    #[test]
    fn places_are_bounded_and_freed() {
        let listeners = Arc::new(Listeners::default());
        let mut held = Vec::new();
        for n in 0..MOST_OF_ONE {
            held.push(listeners.add("ann", Interest::default()).unwrap());
            if n == 0 {
                held.push(listeners.add("ben", Interest::default()).unwrap());
            }
        }
        assert!(listeners.add("ann", Interest::default()).is_err());
        for n in held.len()..MOST {
            let user = format!("user-{n}");
            held.push(listeners.add(&user, Interest::default()).unwrap());
        }
        let full = listeners.add("eve", Interest::default());
        assert!(matches!(full, Err(Error::Busy(_))));
        held.clear();
        assert!(listeners.0.lock().all.is_empty());
    }
}
