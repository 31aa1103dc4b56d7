//! Sessions: who is logged in. They live in memory, so they end with the process.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::random::Random;
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use tokio::time::Instant;

/// The most sessions at once. The one that was idle for longest gives way.
const MAX_SESSIONS: usize = 256;

/// The most sessions of one token, so that its logins end those of few others.
const MAX_OF_TOKEN: usize = 16;

/// A session ends after this time without a request.
const IDLE_TIME: Duration = Duration::from_secs(2 * 3600);

/// A session ends this long after its login.
pub const LONGEST: Duration = Duration::from_secs(12 * 3600);

/// The bytes of a cookie's secret, and of the secret in forms.
const SECRET_BYTES: usize = 32;

/// A login.
pub struct Session {
    /// The token of the admin API.
    pub token: String,
    /// The name of the token for people.
    pub name: String,
    /// The secret that every change carries.
    pub csrf: String,
    /// The id of a token that was made for this session alone. It is revoked when the session ends, and
    /// expires [`LONGEST`] after the login in any case.
    pub own_token: Option<String>,
}

/// All sessions. The table holds digests of cookies, so that it opens nothing by itself.
pub struct Sessions {
    random: Arc<dyn Random>,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    all: HashMap<[u8; 32], Entry>,
    /// Sessions that ended otherwise than by a logout, and whose own token is still to be revoked.
    ended: Vec<Arc<Session>>,
}

struct Entry {
    session: Arc<Session>,
    began: Instant,
    used: Instant,
}

impl Sessions {
    pub fn new(random: Arc<dyn Random>) -> Sessions {
        Sessions {
            random,
            table: Mutex::default(),
        }
    }

    /// Begins a session and returns its cookie. Others may end for it.
    pub fn begin(&self, token: String, name: String, own_token: Option<String>) -> String {
        let cookie = self.secret();
        let now = Instant::now();
        let entry = Entry {
            session: Arc::new(Session {
                token,
                name,
                csrf: self.secret(),
                own_token,
            }),
            began: now,
            used: now,
        };
        let mut table = self.table.lock();
        table.end_old(now);
        let token = &entry.session.token;
        table.make_room(MAX_OF_TOKEN, |session| session.token == *token);
        table.make_room(MAX_SESSIONS, |_| true);
        table.all.insert(key(&cookie), entry);
        cookie
    }

    /// Returns the session of a cookie, if it has not ended.
    pub fn find(&self, cookie: &str) -> Option<Arc<Session>> {
        let now = Instant::now();
        let mut table = self.table.lock();
        table.end_old(now);
        let entry = table.all.get_mut(&key(cookie))?;
        entry.used = now;
        Some(entry.session.clone())
    }

    /// Ends a session. Its own token is left to the caller.
    pub fn end(&self, session: &Arc<Session>) {
        let mut table = self.table.lock();
        table
            .all
            .retain(|_, entry| !Arc::ptr_eq(&entry.session, session));
    }

    /// Takes the sessions that ended by themselves, or for others, and have a token of their own, which
    /// the caller revokes.
    pub fn take_ended(&self) -> Vec<Arc<Session>> {
        std::mem::take(&mut self.table.lock().ended)
    }

    fn secret(&self) -> String {
        let mut bytes = [0; SECRET_BYTES];
        self.random.fill(&mut bytes);
        hex::encode(bytes)
    }
}

impl Table {
    /// Ends the sessions whose time is over.
    fn end_old(&mut self, now: Instant) {
        let old = self.all.extract_if(|_, entry| !entry.is_live(now));
        let old = old.map(|(_, entry)| entry.session);
        self.ended
            .extend(old.filter(|session| session.own_token.is_some()));
    }

    /// Ends the sessions of a group that were idle for longest, until the group has room for one more.
    fn make_room(&mut self, most: usize, is_of_group: impl Fn(&Session) -> bool) {
        loop {
            let entries = self.all.iter();
            let group = entries.filter(|(_, entry)| is_of_group(&entry.session));
            if group.clone().count() < most {
                return;
            }
            let idle = group.min_by_key(|(_, entry)| entry.used);
            let Some(idle) = idle.map(|(key, _)| *key) else {
                return;
            };
            let session = self.all.remove(&idle).map(|entry| entry.session);
            self.ended
                .extend(session.filter(|session| session.own_token.is_some()));
        }
    }
}

impl Entry {
    fn is_live(&self, now: Instant) -> bool {
        now.duration_since(self.used) < IDLE_TIME && now.duration_since(self.began) < LONGEST
    }
}

fn key(cookie: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, cookie.as_bytes()).as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use archipel_base::random::SystemRandom;

    use super::*;

    fn sessions() -> Sessions {
        Sessions::new(Arc::new(SystemRandom))
    }

    fn begin(sessions: &Sessions, token: &str) -> String {
        sessions.begin(token.into(), "name".into(), None)
    }

    /// Begins a session with a token of its own.
    fn begin_own(sessions: &Sessions, id: &str) -> String {
        sessions.begin(id.into(), "name".into(), Some(id.into()))
    }

    fn ended(sessions: &Sessions) -> Vec<String> {
        let ended = sessions.take_ended();
        let ids = ended.iter().map(|session| session.own_token.clone());
        ids.map(Option::unwrap).collect()
    }

    fn count(sessions: &Sessions) -> usize {
        sessions.table.lock().all.len()
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_end_when_idle_and_at_last_in_any_case() {
        let sessions = sessions();
        let (idle, busy) = (begin(&sessions, "token"), begin(&sessions, "token"));
        for _ in 0..11 {
            tokio::time::advance(Duration::from_secs(3600)).await;
            assert!(sessions.find(&busy).is_some());
        }
        assert!(sessions.find(&idle).is_none());
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert!(sessions.find(&busy).is_none());
        assert_eq!(count(&sessions), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_session_gives_way() {
        let sessions = sessions();
        let first = begin(&sessions, "first");
        tokio::time::advance(Duration::from_secs(1)).await;
        let second = begin_own(&sessions, "second");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(sessions.find(&first).is_some());
        for number in 2..=MAX_SESSIONS {
            begin(&sessions, &format!("token {number}"));
        }
        assert_eq!(count(&sessions), MAX_SESSIONS);
        assert_eq!(ended(&sessions), ["second"]);
        assert!(sessions.find(&first).is_some() && sessions.find(&second).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn logins_with_one_token_end_no_sessions_of_others() {
        let sessions = sessions();
        let other = begin(&sessions, "other");
        tokio::time::advance(Duration::from_secs(1)).await;
        let first = begin(&sessions, "token");
        tokio::time::advance(Duration::from_secs(1)).await;
        for _ in 0..MAX_SESSIONS {
            begin(&sessions, "token");
        }
        assert_eq!(count(&sessions), 1 + MAX_OF_TOKEN);
        assert!(sessions.find(&other).is_some() && sessions.find(&first).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn own_tokens_of_idle_sessions_are_left_to_be_revoked_once() {
        let sessions = sessions();
        begin_own(&sessions, "idle");
        let left = begin_own(&sessions, "left");
        sessions.end(&sessions.find(&left).unwrap());
        tokio::time::advance(IDLE_TIME).await;
        let busy = begin_own(&sessions, "busy");
        assert_eq!(ended(&sessions), ["idle"]);
        assert!(sessions.find(&busy).is_some() && ended(&sessions).is_empty());
        tokio::time::advance(IDLE_TIME).await;
        assert!(sessions.find("no cookie").is_none());
        assert_eq!(ended(&sessions), ["busy"]);
    }

    #[tokio::test(start_paused = true)]
    async fn ended_session_is_gone() {
        let sessions = sessions();
        let cookie = begin(&sessions, "token");
        sessions.end(&sessions.find(&cookie).unwrap());
        assert!(sessions.find(&cookie).is_none());
    }
}
