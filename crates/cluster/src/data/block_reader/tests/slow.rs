//! Replicas whose links are slow.

use archipel_net::simulated::Link;

use super::*;
use crate::World;

/// Lets what the other nodes send to the last one arrive at a rate. The last node knows how far
/// they are.
async fn slow(world: &World, bytes_per_second: u64) {
    let absent = RowKey {
        partition: PartitionId(0),
        key: Bytes::from_static(b"absent"),
    };
    world.nodes[2].metadata(&absent).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let link = Link {
        latency: Duration::from_millis(20),
        bytes_per_second: Some(bytes_per_second),
        ..Link::default()
    };
    for other in &world.ids[..2] {
        world.network.set_link(*other, world.ids[2], link);
    }
}

/// Returns how many streams of blocks the last node has opened.
fn fetches(world: &World) -> u64 {
    let peers = world.nodes[2].peers.as_ref().unwrap();
    let counts = peers.rpc.counts();
    counts.get(method::FETCH).map_or(0, |counts| counts.made)
}

fn stream(world: &World, blocks: &[BlockRef]) -> BlockStream {
    BlockStream::new(
        world.nodes[2].data(),
        PartitionId(0),
        blocks.to_vec(),
        false,
    )
}

/// Found by reading. At 1 Mbit/s a block takes 8 s, which was longer than a frame might take, and a
/// sign of life takes 4 s, because it waits behind the frames that are under way.
#[tokio::test(start_paused = true)]
async fn slow_replica_that_delivers_is_the_only_one_that_is_asked() {
    let contents = [content(1 << 20), content(300_000)];
    let (world, blocks) = holding(&contents).await;
    slow(&world, 125_000).await;
    for class in [None, Some(Class::Background)] {
        for in_pieces in [false, true] {
            let before = fetches(&world);
            let stream = stream(&world, &blocks).in_class(class);
            let (got, error) = match in_pieces {
                true => drain(stream.in_pieces(0)).await,
                false => drain(stream).await,
            };
            assert!(error.is_none(), "{class:?}, {in_pieces}: {error:?}");
            assert!(got == contents.concat(), "{class:?}, {in_pieces}");
            let asked = fetches(&world) - before;
            assert_eq!(asked, 1, "{class:?}, {in_pieces}");
        }
    }
}

/// Found by reading: with each block the search for a faster replica began again, and what was on
/// its way was lost.
#[tokio::test(start_paused = true)]
async fn last_resort_is_kept_while_it_delivers() {
    let contents = [content(100_000), content(90_000)];
    let (world, blocks) = holding(&contents).await;
    // The longest frame takes more than 3 s.
    slow(&world, 10_000).await;
    let mut stream = stream(&world, &blocks);
    let first = stream.next().await.unwrap().unwrap();
    assert!(first == contents[0]);
    let asked = fetches(&world);
    assert!(asked > 1);
    let second = stream.next().await.unwrap().unwrap();
    assert!(second == contents[1]);
    assert_eq!(fetches(&world), asked);
}

/// Found by reading: a replica was the last resort for all blocks that followed, so its death was
/// noticed late.
#[tokio::test(start_paused = true)]
async fn last_resort_that_becomes_fast_is_one_no_longer() {
    let mut contents = vec![content(100_000)];
    contents.extend((0..10).map(|i| content(5000 + i)));
    let (world, blocks) = holding(&contents).await;
    slow(&world, 10_000).await;
    let mut stream = stream(&world, &blocks);
    stream.next().await.unwrap().unwrap();
    assert!(stream.remote.as_ref().unwrap().is_last_resort);
    for other in &world.ids[..2] {
        world
            .network
            .set_link(*other, world.ids[2], Link::default());
    }
    for _ in 0..10 {
        stream.next().await.unwrap().unwrap();
    }
    assert!(!stream.remote.as_ref().unwrap().is_last_resort);
}
