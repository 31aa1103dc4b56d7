//! Replicas whose links are slow.

use archipel_net::simulated::Link;

use super::*;
use crate::World;
use crate::data::tests::{fetches, limit, measure};

/// Lets what the other nodes send to the last one arrive at a rate.
async fn slow(world: &World, bytes_per_second: u64) {
    measure(world).await;
    limit(world, &[0, 1], bytes_per_second);
}

/// Creates three nodes, of which the second lacks these blocks.
async fn lacked_by_the_second(contents: &[Vec<u8>]) -> (World, Vec<BlockRef>) {
    let world = World::new(3, 3, Duration::from_millis(20), 7, Hooks::NONE);
    let world = world.await.unwrap();
    world.isolate(1);
    let blocks = store(&world, contents).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.network.end_all_cuts();
    (world, blocks)
}

/// Moves the first node nearer to the last one than the second is.
async fn bring_nearer(world: &World) {
    world.move_away(0, Duration::from_millis(15));
    measure(world).await;
}

/// Runs some work of the last node. Once a node has begun to send, the links of `slow` are so slow
/// that a long frame takes 16 s.
async fn with_slow<T>(world: &World, slow: &[usize], work: impl Future<Output = T>) -> T {
    limit(world, &[0, 1], 80_000);
    let later = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        limit(world, &[0, 1], 10_000_000);
        limit(world, slow, 4_000);
    };
    tokio::join!(work, later).0
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
            let before = fetches(&world.nodes[2]);
            let stream = stream(&world, &blocks).in_class(class);
            let (got, error) = match in_pieces {
                true => drain(stream.in_pieces(0)).await,
                false => drain(stream).await,
            };
            assert!(error.is_none(), "{class:?}, {in_pieces}: {error:?}");
            assert!(got == contents.concat(), "{class:?}, {in_pieces}");
            let asked = fetches(&world.nodes[2]) - before;
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
    let asked = fetches(&world.nodes[2]);
    assert!(asked > 1);
    let second = stream.next().await.unwrap().unwrap();
    assert!(second == contents[1]);
    assert_eq!(fetches(&world.nodes[2]), asked);
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

/// Found by reading: blocks that no client waited for came from the nearest replica for hours, and
/// another one was idle.
#[tokio::test(start_paused = true)]
async fn blocks_that_no_client_waits_for_leave_a_slow_replica() {
    let contents = [
        content(1 << 20),
        content((1 << 20) - 1),
        content((1 << 20) - 2),
    ];
    for slow in [&[0][..], &[0, 1]] {
        let (world, blocks) = holding(&contents).await;
        bring_nearer(&world).await;
        let class = Some(MOVED);
        let begun = Instant::now();
        let reading = drain(stream(&world, &blocks).in_class(class));
        let (got, error) = with_slow(&world, slow, reading).await;
        assert!(error.is_none(), "{slow:?}: {error:?}");
        assert!(got == contents.concat());
        // If all are slow, the first one goes on.
        assert_eq!(fetches(&world.nodes[2]), 2, "{slow:?}");
        let is_soon = begun.elapsed() < Duration::from_secs(400);
        assert_eq!(is_soon, slow.len() == 1, "{slow:?}: {:?}", begun.elapsed());
        if slow.len() == 1 {
            // The next row does not begin with it again.
            let begun = Instant::now();
            let (got, error) = drain(stream(&world, &blocks[..1]).in_class(class)).await;
            assert!(error.is_none() && got == contents[0]);
            assert!(
                begun.elapsed() < Duration::from_secs(10),
                "on the paused clock"
            );
        }
    }
}

/// Found by reading: after each block, a replica without the blocks was asked before the slow one went
/// on.
#[tokio::test(start_paused = true)]
async fn slow_replica_goes_on_if_no_other_one_has_the_blocks() {
    let contents = [
        content(1 << 20),
        content((1 << 20) - 1),
        content((1 << 20) - 2),
    ];
    let (world, blocks) = lacked_by_the_second(&contents).await;
    bring_nearer(&world).await;
    let reading = drain(stream(&world, &blocks).in_class(Some(MOVED)));
    let (got, error) = with_slow(&world, &[0], reading).await;
    assert!(error.is_none(), "{error:?}");
    assert!(got == contents.concat());
    assert_eq!(fetches(&world.nodes[2]), 2, "the other one is asked once");
}

/// Found by reading: a replica was left for being slow, and its stream broke meanwhile. It was not
/// asked again, and the fetch ended.
#[tokio::test(start_paused = true)]
async fn replica_whose_stream_broke_in_reserve_is_asked_again() {
    let contents = [content(5000)];
    let (world, blocks) = lacked_by_the_second(&contents).await;
    let broken = Source::new(world.ids[0], Box::new(Pieces(VecDeque::new())));
    let reading = BlockStream {
        reserve: Some(broken),
        ..stream(&world, &blocks).in_class(Some(MOVED))
    };
    let (got, error) = drain(reading).await;
    assert!(error.is_none(), "{error:?}");
    assert!(got == contents[0]);
}

/// Found by reading: blocks that a rebalance moved came from another replica if the background was slow,
/// which is sent behind them.
#[tokio::test(start_paused = true)]
async fn replica_that_is_slow_in_the_background_is_not_avoided_for_moved_blocks() {
    let contents = [content(1 << 20), content((1 << 20) - 1)];
    let (world, blocks) = holding(&contents).await;
    bring_nearer(&world).await;
    let background = Some(Class::Background);
    let reading = drain(stream(&world, &blocks).in_class(background));
    let (_, error) = with_slow(&world, &[0], reading).await;
    assert!(error.is_none(), "{error:?}");
    let node = world.nodes[2].data();
    let is_avoided = |class| {
        let slow = &node.slow_sources;
        slow.is_avoided(&world.ids[0], class, Instant::now())
    };
    assert!(is_avoided(background));
    assert!(!is_avoided(Some(MOVED)));
}
