use archipel_base::random::SeededRandom;
use bytes::Bytes;

use super::*;

const HERE: NodeId = NodeId([1; 32]);
const THERE: NodeId = NodeId([2; 32]);

/// Returns a network with a cut between two nodes, and their transports.
fn cut() -> (Arc<SimulatedNetwork>, [Arc<SimulatedTransport>; 2]) {
    let network = SimulatedNetwork::new(Arc::new(SeededRandom::new(1)));
    let nodes = [HERE, THERE].map(|id| network.node(id));
    network.cut(HERE, THERE);
    (network, nodes)
}

async fn open(from: &SimulatedTransport) -> Result<Stream, Error> {
    let peer = Peer {
        id: THERE,
        addresses: Arc::new([]),
    };
    from.open(&peer, Class::Small).await
}

#[tokio::test(start_paused = true)]
async fn stream_that_meets_a_cut_is_given_up() {
    let (_network, [here, _there]) = cut();
    let begun = Instant::now();
    assert!(matches!(open(&here).await, Err(Error::Unreachable(..))));
    assert_eq!(begun.elapsed(), CONNECT_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn kept_connection_takes_streams_at_a_cut_until_it_breaks() {
    let (network, [here, there]) = cut();
    network.keep_connections();
    let mut stream = open(&here).await.unwrap();
    stream.send.send(Bytes::from_static(b"lost")).await.unwrap();
    let mut accepted = there.accept().await.unwrap().stream;
    assert!(accepted.receive.receive().await.is_err(), "it never comes");
    assert!(matches!(open(&here).await, Err(Error::Unreachable(..))));
    network.end_all_cuts();
    assert!(open(&here).await.is_ok());
    // A later cut counts from its own beginning.
    network.cut(HERE, THERE);
    assert!(open(&here).await.is_ok());
}
