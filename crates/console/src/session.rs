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
    /// The id of a token that was made for this session alone and ends with it.
    pub own_token: Option<String>,
}

/// All sessions. The table holds digests of cookies, so that it opens nothing by itself.
pub struct Sessions {
    random: Arc<dyn Random>,
    all: Mutex<HashMap<[u8; 32], Entry>>,
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
            all: Mutex::new(HashMap::new()),
        }
    }

    /// Begins a session and returns its cookie.
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
        let mut all = self.all.lock();
        all.retain(|_, entry| entry.is_live(now));
        if all.len() >= MAX_SESSIONS
            && let Some(idle) = all.iter().min_by_key(|(_, entry)| entry.used)
        {
            let idle = *idle.0;
            all.remove(&idle);
        }
        all.insert(key(&cookie), entry);
        cookie
    }

    /// Returns the session of a cookie, if it has not ended.
    pub fn find(&self, cookie: &str) -> Option<Arc<Session>> {
        let now = Instant::now();
        let mut all = self.all.lock();
        let entry = all.get_mut(&key(cookie))?;
        if !entry.is_live(now) {
            all.remove(&key(cookie));
            return None;
        }
        entry.used = now;
        Some(entry.session.clone())
    }

    /// Ends the session of a cookie.
    pub fn end(&self, cookie: &str) {
        self.all.lock().remove(&key(cookie));
    }

    fn secret(&self) -> String {
        let mut bytes = [0; SECRET_BYTES];
        self.random.fill(&mut bytes);
        hex::encode(bytes)
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

    fn begin(sessions: &Sessions) -> String {
        sessions.begin("token".into(), "name".into(), None)
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_end_when_idle_and_at_last_in_any_case() {
        let sessions = sessions();
        let (idle, busy) = (begin(&sessions), begin(&sessions));
        for _ in 0..11 {
            tokio::time::advance(Duration::from_secs(3600)).await;
            assert!(sessions.find(&busy).is_some());
        }
        assert!(sessions.find(&idle).is_none());
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert!(sessions.find(&busy).is_none());
        assert!(sessions.all.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_session_gives_way() {
        let sessions = sessions();
        let first = begin(&sessions);
        tokio::time::advance(Duration::from_secs(1)).await;
        let second = begin(&sessions);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(sessions.find(&first).is_some());
        for _ in 2..=MAX_SESSIONS {
            begin(&sessions);
        }
        assert_eq!(sessions.all.lock().len(), MAX_SESSIONS);
        assert!(sessions.find(&first).is_some() && sessions.find(&second).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn ended_session_is_gone() {
        let sessions = sessions();
        let cookie = begin(&sessions);
        sessions.end(&cookie);
        assert!(sessions.find(&cookie).is_none());
    }
}
