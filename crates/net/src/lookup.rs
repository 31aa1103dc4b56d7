//! Lookups of host names.
//!
//! The system's resolver blocks a thread until it answers, although nobody waits any more: for 10
//! to 20 s if its servers are cut off. The process has few threads for blocking work, and pieces of
//! uploads are hashed on them. So at most two of them ever look up names.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

/// The number of threads that may look up names at once.
const THREADS: usize = 2;

/// The free ones. One for the process, because its threads are shared.
static FREE: Semaphore = Semaphore::const_new(THREADS);

/// Returns the addresses of a host with a port, `host:port`. The host is a name or an address.
///
/// # Errors
/// A text for the operator: the name is unknown, or the system's resolver does not answer in time.
pub async fn look_up(host: &str, time_limit: Duration) -> Result<Vec<SocketAddr>, String> {
    if let Ok(address) = host.parse() {
        return Ok(vec![address]);
    }
    let host = host.to_owned();
    let lookup = async move {
        let found = tokio::net::lookup_host(host).await?;
        io::Result::Ok(found.collect())
    };
    on_free_thread(&FREE, time_limit, lookup).await
}

/// Runs a lookup once a thread is free. The thread is taken until the lookup has ended, also after
/// the time limit.
async fn on_free_thread(
    free: &'static Semaphore,
    time_limit: Duration,
    lookup: impl Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
) -> Result<Vec<SocketAddr>, String> {
    let until = Instant::now() + time_limit;
    let Ok(Ok(taken)) = timeout_at(until, free.acquire()).await else {
        return Err(format!(
            "{THREADS} earlier lookups of names still wait for the system's resolver; fix: repair it, or give \
             addresses instead of names"
        ));
    };
    let running = tokio::spawn(async move {
        let found = lookup.await;
        drop(taken);
        found
    });
    match timeout_at(until, running).await {
        Ok(Ok(found)) => found.map_err(|error| error.to_string()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the name is not found in time".into()),
    }
}

/// Takes all threads until the result is dropped, as lookups do to which the resolver gives no answer.
#[cfg(test)]
pub(crate) async fn take_all_threads() -> tokio::sync::SemaphorePermit<'static> {
    FREE.acquire_many(THREADS as u32).await.unwrap()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    /// The other threads hash what clients upload.
    #[tokio::test(start_paused = true)]
    async fn a_resolver_that_hangs_takes_two_threads_and_no_more() {
        let free: &'static Semaphore = Box::leak(Box::new(Semaphore::new(THREADS)));
        let address = SocketAddr::from(([192, 0, 2, 1], 3901));
        let begun = Arc::new(AtomicUsize::new(0));
        // Nothing comes through until it is closed.
        let hangs = Arc::new(Semaphore::new(0));
        let look_up = || {
            let (begun, hangs) = (begun.clone(), hangs.clone());
            on_free_thread(free, LIMIT, async move {
                begun.fetch_add(1, Ordering::SeqCst);
                let _ = hangs.acquire().await;
                Ok(vec![address])
            })
        };
        for _ in 0..10 {
            look_up().await.unwrap_err();
        }
        assert_eq!(begun.load(Ordering::SeqCst), THREADS);
        let why = look_up().await.unwrap_err();
        assert!(why.contains("wait for the system's resolver"), "{why}");
        hangs.close();
        assert_eq!(look_up().await, Ok(vec![address]));
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_needs_no_resolver() {
        let address = SocketAddr::from(([127, 0, 0, 1], 3901));
        let found = look_up("127.0.0.1:3901", Duration::ZERO).await;
        assert_eq!(found, Ok(vec![address]));
    }
}
