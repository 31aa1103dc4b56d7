//! A TCP connection and the task that drives it.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use archipel_base::NodeId;
use async_trait::async_trait;
use bytes::BytesMut;
use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::{Instant, sleep_until, timeout};

use super::state::{Broken, ConnectionState, STREAMS};
use super::stream::{Receiver, Sender};
use super::wire::{self, PIECE_BYTES};
use crate::error::Error;
use crate::identity::Side;
use crate::pool::{self, Figures, Usage, UsageGuard};
use crate::transport::{Class, Stream};

/// A connection without any message from the peer for this long is broken.
const SILENCE: Duration = Duration::from_secs(8);
/// The interval of keep-alive messages.
const KEEP_ALIVE: Duration = Duration::from_secs(2);

/// A cheap handle of a connection.
#[derive(Clone)]
pub struct TcpConnection(Arc<Shared>);

pub(super) struct Shared {
    id: usize,
    begun: Instant,
    state: Mutex<ConnectionState>,
    /// Notified when there is something to send.
    pub work: Notify,
    /// Notified when the connection is closed or broken.
    over: Notify,
    /// Permits for the streams that this end may open.
    streams: Arc<Semaphore>,
    accepted: tokio::sync::Mutex<mpsc::Receiver<u64>>,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
}

impl Shared {
    pub fn state(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock()
    }

    fn break_off(&self, why: &str) {
        self.state().break_off(why);
        self.streams.close();
        self.over.notify_one();
    }

    /// Sends the queued pieces, the most urgent first, and a keep-alive at each interval.
    async fn write<T: AsyncWrite>(&self, mut io: WriteHalf<T>) -> std::io::Result<Broken> {
        let mut buffer = BytesMut::with_capacity(2 * PIECE_BYTES);
        let mut sign_due = self.begun;
        loop {
            let now = Instant::now();
            {
                let mut state = self.state();
                if now >= sign_due {
                    let time = now.duration_since(self.begun).as_micros() as u64;
                    state.outbox.ping(time);
                    sign_due = now + KEEP_ALIVE;
                }
                state.gather(&mut buffer, PIECE_BYTES);
            }
            if buffer.is_empty() {
                tokio::select! {
                    () = self.work.notified() => {}
                    () = sleep_until(sign_due) => {}
                }
                continue;
            }
            io.write_all(&buffer).await?;
            io.flush().await?;
            let written = buffer.len() as u64;
            self.sent_bytes.fetch_add(written, Ordering::Relaxed);
            buffer.clear();
        }
    }

    /// Reads and handles the peer's pieces. Never waits for a stream's reader.
    async fn read<T: AsyncRead>(&self, mut io: ReadHalf<T>) -> std::io::Result<Broken> {
        let mut buffer = BytesMut::with_capacity(2 * PIECE_BYTES);
        loop {
            buffer.reserve(PIECE_BYTES);
            let Ok(read) = timeout(SILENCE, io.read_buf(&mut buffer)).await else {
                return Ok("the peer was silent for too long".into());
            };
            let read = read?;
            if read == 0 {
                return Ok("the connection was closed".into());
            }
            self.received_bytes
                .fetch_add(read as u64, Ordering::Relaxed);
            let mut state = self.state();
            loop {
                match wire::take(&mut buffer) {
                    Ok(Some(piece)) => {
                        if let Err(why) = state.handle(piece, Instant::now(), self.begun) {
                            return Ok(why);
                        }
                    }
                    Ok(None) => break,
                    Err(why) => return Ok(why),
                }
            }
            drop(state);
            self.work.notify_one();
        }
    }
}

/// Runs a connection until it breaks or is closed.
async fn run<T: AsyncRead + AsyncWrite>(shared: Arc<Shared>, io: T) {
    let (read, write) = tokio::io::split(io);
    let ended = tokio::select! {
        ended = shared.read(read) => ended,
        ended = shared.write(write) => ended,
        () = shared.over.notified() => Ok("the connection was closed".into()),
    };
    let why = ended.unwrap_or_else(|error| error.to_string());
    shared.break_off(&why);
}

impl TcpConnection {
    /// Starts a connection on a session whose ends have both proven the secret.
    pub(super) fn start<T>(peer: NodeId, side: Side, io: T) -> TcpConnection
    where
        T: AsyncRead + AsyncWrite + Send + 'static,
    {
        static IDS: AtomicUsize = AtomicUsize::new(0);
        let (opened, accepted) = mpsc::channel(STREAMS);
        let shared = Arc::new(Shared {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            begun: Instant::now(),
            state: Mutex::new(ConnectionState::new(peer, side, opened)),
            work: Notify::new(),
            over: Notify::new(),
            streams: Arc::new(Semaphore::new(STREAMS)),
            accepted: tokio::sync::Mutex::new(accepted),
            sent_bytes: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
        });
        tokio::spawn(run(shared.clone(), io));
        TcpConnection(shared)
    }

    fn stream(&self, peer: NodeId, id: u64, class: Class, held: UsageGuard) -> Stream {
        let send = Sender::new(self.0.clone(), peer, id, class, held.clone());
        Stream {
            send: Box::new(send),
            receive: Box::new(Receiver::new(self.0.clone(), peer, id, held)),
        }
    }
}

#[async_trait]
impl pool::Connection for TcpConnection {
    fn id(&self) -> usize {
        self.0.id
    }

    fn is_open(&self) -> bool {
        self.0.state().broken().is_none()
    }

    fn close(&self, why: &'static str) {
        self.0.break_off(why);
    }

    fn figures(&self) -> Figures {
        Figures {
            sent_bytes: self.0.sent_bytes.load(Ordering::Relaxed),
            received_bytes: self.0.received_bytes.load(Ordering::Relaxed),
            // The kernel retransmits lost packets without reporting them.
            lost_packets: 0,
            round_trip: self.0.state().round_trip(),
        }
    }

    async fn open(&self, peer: NodeId, class: Class, held: UsageGuard) -> Result<Stream, Error> {
        let broken = |why: String| Error::Broken(peer, why);
        let permit = self.0.streams.clone().acquire_owned().await;
        let permit = permit.map_err(|_| broken("the connection was closed".into()))?;
        let opened = self.0.state().open(class, permit, Instant::now());
        let id = opened.map_err(broken)?;
        // The writer is not woken yet, so that the opening leaves together with the first frame.
        Ok(self.stream(peer, id, class, held))
    }

    async fn accept(&self, peer: NodeId, usage: &Usage) -> Option<Stream> {
        let id = self.0.accepted.lock().await.recv().await?;
        // The same class as in `ConnectionState`, until the service changes it.
        Some(self.stream(peer, id, Class::Small, usage.hold()))
    }
}

/// Waits until `poll` returns an answer or the connection breaks.
pub(super) async fn when<T>(
    shared: &Shared,
    peer: NodeId,
    mut poll: impl FnMut(&mut ConnectionState, &std::task::Waker) -> Poll<Result<T, Error>>,
) -> Result<T, Error> {
    let answer = poll_fn(|context| {
        let mut state = shared.state();
        match poll(&mut state, context.waker()) {
            Poll::Ready(answer) => Poll::Ready(answer),
            Poll::Pending => match state.broken() {
                Some(why) => Poll::Ready(Err(Error::Broken(peer, why.clone()))),
                None => Poll::Pending,
            },
        }
    });
    answer.await
}
