//! Tests of the pool with connections in memory and with paused time.

mod dials;
mod strangers;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use archipel_base::NodeId;
use async_trait::async_trait;
use tokio::sync::{Notify, mpsc};

use super::*;
use crate::identity::Identity;
use crate::transport::{ReceiveFrames, SendFrames};

const PEER: NodeId = NodeId([2; 32]);

/// A carrier whose connections to one peer are only counted.
struct Fake {
    identity: Identity,
    made: Arc<Mutex<Vec<FakeConnection>>>,
    knocks: tokio::sync::Mutex<mpsc::Receiver<Knock>>,
    /// The attempts that were asked to show their address.
    asked: Arc<AtomicUsize>,
    dials: Arc<AtomicUsize>,
    /// True if the other ends close their attempts.
    gone: Arc<AtomicBool>,
}

/// An attempt: true if it proves the secret at once, and its address.
type Knock = (bool, SocketAddr);

/// An address that never answers.
const SILENT: &str = "127.0.0.9:1";
/// An address that answers late.
const SLOW: &str = "127.0.0.8:1";
/// An address that refuses connections.
const REFUSING: &str = "127.0.0.7:1";

/// Returns the n-th address of a stranger.
fn stranger(n: usize) -> SocketAddr {
    ([10, 0, (n / 256) as u8, (n % 256) as u8], 1).into()
}

fn member() -> SocketAddr {
    ([127, 0, 0, 1], 1).into()
}

#[derive(Clone)]
struct FakeConnection(Arc<FakeState>);

struct FakeState {
    id: usize,
    closed: AtomicBool,
    /// Notified when the peer opens a stream.
    opens: Notify,
}

struct Half {
    _held: UsageGuard,
}

#[async_trait]
impl SendFrames for Half {
    async fn send(&mut self, _: bytes::Bytes) -> Result<(), Error> {
        Ok(())
    }
    async fn finish(&mut self) -> Result<(), Error> {
        Ok(())
    }
    fn set_class(&mut self, _: Class) {}
}

#[async_trait]
impl ReceiveFrames for Half {
    async fn receive(&mut self) -> Result<Option<bytes::Bytes>, Error> {
        Ok(None)
    }
}

fn stream(held: UsageGuard) -> Stream {
    Stream {
        send: Box::new(Half {
            _held: held.clone(),
        }),
        receive: Box::new(Half { _held: held }),
    }
}

#[async_trait]
impl Connection for FakeConnection {
    fn id(&self) -> usize {
        self.0.id
    }
    fn is_open(&self) -> bool {
        !self.0.closed.load(Ordering::SeqCst)
    }
    fn close(&self, _: &'static str) {
        self.0.closed.store(true, Ordering::SeqCst);
        self.0.opens.notify_one();
    }
    fn figures(&self) -> Figures {
        Figures {
            sent_bytes: 10,
            ..Figures::default()
        }
    }
    async fn open(&self, _: NodeId, _: Class, held: UsageGuard) -> Result<Stream, Error> {
        Ok(stream(held))
    }
    async fn accept(&self, _: NodeId, usage: &Usage) -> Option<Stream> {
        self.0.opens.notified().await;
        self.is_open().then(|| stream(usage.hold()))
    }
}

impl Fake {
    fn connection(&self) -> FakeConnection {
        static IDS: AtomicUsize = AtomicUsize::new(0);
        let connection = FakeConnection(Arc::new(FakeState {
            id: IDS.fetch_add(1, Ordering::SeqCst),
            closed: AtomicBool::new(false),
            opens: Notify::new(),
        }));
        self.made.lock().push(connection.clone());
        connection
    }
}

#[async_trait]
impl Carrier for Fake {
    type Connection = FakeConnection;
    type Attempt = bool;
    const CONTENT_LANES: u8 = 2;

    fn identity(&self) -> &Identity {
        &self.identity
    }
    async fn dial(
        &self,
        address: SocketAddr,
        _: Option<NodeId>,
        _: Lane,
    ) -> Result<(NodeId, FakeConnection), String> {
        self.dials.fetch_add(1, Ordering::SeqCst);
        let takes = match address.to_string().as_str() {
            SILENT => return std::future::pending().await,
            REFUSING => return Err("refused".into()),
            SLOW => 300,
            _ => 10,
        };
        tokio::time::sleep(Duration::from_millis(takes)).await;
        Ok((PEER, self.connection()))
    }
    async fn next_attempt(&self) -> Option<(SocketAddr, bool)> {
        let (proven, from) = self.knocks.lock().await.recv().await?;
        Some((from, proven))
    }
    fn validate(&self, attempt: bool) -> Option<bool> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Some(attempt)
    }
    async fn admit(&self, proven: bool) -> Result<(NodeId, Lane, FakeConnection), NotAdmitted> {
        if self.gone.load(Ordering::SeqCst) {
            Err(NotAdmitted::Gone("closed".into()))
        } else if proven {
            Ok((PEER, Lane(1), self.connection()))
        } else {
            std::future::pending().await
        }
    }
    fn refuse(&self, _: bool) {}
    async fn close(&self) {}
}

struct Bench {
    pool: Arc<Pool<Fake>>,
    made: Arc<Mutex<Vec<FakeConnection>>>,
    knocks: mpsc::Sender<Knock>,
    asked: Arc<AtomicUsize>,
    dials: Arc<AtomicUsize>,
    gone: Arc<AtomicBool>,
    peer: Peer,
}

fn bench() -> Bench {
    let random = ring::rand::SystemRandom::new();
    let key = ring::signature::Ed25519KeyPair::generate_pkcs8(&random).unwrap();
    let made: Arc<Mutex<Vec<FakeConnection>>> = Arc::default();
    let (sender, knocks) = mpsc::channel(1000);
    let asked: Arc<AtomicUsize> = Arc::default();
    let dials: Arc<AtomicUsize> = Arc::default();
    let gone: Arc<AtomicBool> = Arc::default();
    let pool = Pool::start(Fake {
        identity: Identity::new(key.as_ref(), b"secret").unwrap(),
        made: made.clone(),
        knocks: tokio::sync::Mutex::new(knocks),
        asked: asked.clone(),
        dials: dials.clone(),
        gone: gone.clone(),
    });
    let peer = Peer {
        id: PEER,
        addresses: Arc::new(["127.0.0.1:1".into()]),
    };
    Bench {
        pool,
        made,
        knocks: sender,
        asked,
        dials,
        gone,
        peer,
    }
}

impl Bench {
    fn made(&self) -> Vec<FakeConnection> {
        self.made.lock().clone()
    }
    async fn knock(&self, proven: bool, from: SocketAddr) {
        self.knocks.send((proven, from)).await.unwrap();
    }
    async fn open(&self, class: Class) -> Stream {
        self.pool.open(&self.peer, class).await.unwrap()
    }
}

async fn minutes(n: u64) {
    tokio::time::sleep(Duration::from_secs(60 * n)).await;
}

#[tokio::test(start_paused = true)]
async fn simultaneous_opens_share_a_dial_and_content_has_its_own_lanes() {
    let bench = bench();
    let all = futures_util::future::join_all((0..10).map(|_| bench.open(Class::Small))).await;
    assert_eq!(bench.made().len(), 1);
    let content = Class::Data { remaining: 1 };
    let more = futures_util::future::join_all((0..10).map(|_| bench.open(content))).await;
    assert_eq!(bench.made().len(), 3);
    drop((all, more));
    // A broken connection is not reused.
    bench.made()[0].close("broken");
    bench.open(Class::Control).await;
    assert_eq!(bench.made().len(), 4);
    let known = &bench.pool.statistics()[0];
    assert_eq!((known.connections, known.streams), (3, 21));
    assert_eq!(known.sent_bytes, 40);
}

#[tokio::test(start_paused = true)]
async fn counts_of_peers_that_left_are_bounded() {
    let bench = bench();
    drop(bench.open(Class::Small).await);
    let inner = &bench.pool.inner;
    for n in 0..2 * REMEMBERED {
        let mut id = NodeId::default();
        id.0[..8].copy_from_slice(&n.to_be_bytes());
        let connection = inner.carrier.connection();
        inner.keep(id, Lane(1), connection.clone());
        connection.close("gone");
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(bench.pool.statistics().len(), REMEMBERED + 1);
    // The peer with a stream stays also without a connection.
    minutes(2).await;
    let known = bench.pool.statistics();
    assert_eq!(known.len(), REMEMBERED);
    assert!(known.iter().any(|known| known.peer == PEER));
}

#[tokio::test(start_paused = true)]
async fn idle_connections_are_closed_and_used_ones_stay() {
    let bench = bench();
    let stream = bench.open(Class::Small).await;
    minutes(10).await;
    assert!(bench.made()[0].is_open());
    let Stream { send, receive } = stream;
    drop(send);
    minutes(10).await;
    assert!(bench.made()[0].is_open());
    drop(receive);
    minutes(2).await;
    assert!(!bench.made()[0].is_open());
    assert_eq!(bench.pool.statistics()[0].connections, 0);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_only_the_peer_uses_is_in_use() {
    let bench = bench();
    bench.knock(true, member()).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    bench.made()[0].0.opens.notify_one();
    let stream = bench.pool.accept().await.unwrap();
    minutes(10).await;
    assert!(bench.made()[0].is_open());
    drop(stream);
    minutes(2).await;
    assert!(!bench.made()[0].is_open());
}

#[tokio::test(start_paused = true)]
async fn unused_one_of_two_connections_is_closed() {
    let bench = bench();
    bench.knock(true, member()).await;
    bench.knock(true, member()).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(bench.made().len(), 2);
    assert_eq!(bench.pool.statistics()[0].connections, 2);
    minutes(2).await;
    assert!(bench.made().iter().all(|connection| !connection.is_open()));
}

#[tokio::test(start_paused = true)]
async fn close_ends_connections_and_pending_accepts() {
    let bench = bench();
    let _stream = bench.open(Class::Small).await;
    let pool = bench.pool.clone();
    let accepting = tokio::spawn(async move { pool.accept().await.is_none() });
    tokio::task::yield_now().await;
    bench.pool.close().await;
    assert!(accepting.await.unwrap());
    assert!(!bench.made()[0].is_open());
    let opened = bench.pool.open(&bench.peer, Class::Small).await;
    assert!(matches!(opened, Err(Error::Closed)));
}
