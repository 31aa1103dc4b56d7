//! The stop of a server, as requests that wait are told.

use tokio::sync::watch;

/// Tells a request that the server stops, in the request's extensions.
#[derive(Clone, Debug)]
pub struct Stopping(pub(super) watch::Receiver<()>);

impl Stopping {
    /// Returns what ends once the sender is dropped.
    #[cfg(test)]
    pub fn channel() -> (watch::Sender<()>, Stopping) {
        let (runs, stopping) = watch::channel(());
        (runs, Stopping(stopping))
    }

    /// Waits until the server stops.
    pub async fn begins(&self) {
        // Never sent to: the sender is dropped.
        let _ = self.0.clone().changed().await;
    }
}
