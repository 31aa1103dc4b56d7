use std::time::Duration;

use archipel_base::{Id, PartitionId};

use crate::layout::PARTITIONS;
use crate::memory::World;
use crate::node::options::Hooks;

/// Returns, partition by partition, the places of the nodes that say they are its first live one.
fn first_live(world: &World) -> Vec<Vec<usize>> {
    let of = |partition: u16| {
        let nodes = world.nodes.iter().enumerate();
        let first = nodes.filter(|(_, node)| node.is_first_live(PartitionId(partition)));
        first.map(|(place, _)| place).collect()
    };
    (0..PARTITIONS).map(of).collect()
}

#[tokio::test(start_paused = true)]
async fn each_partition_has_one_first_live_node() {
    let latency = Duration::from_millis(1);
    let world = World::new(3, 3, latency, 1, Hooks::NONE).await.unwrap();
    let partitions = usize::from(PARTITIONS);
    let of = |place: usize, first: &[Vec<usize>]| first.iter().filter(|f| **f == [place]).count();

    let whole = first_live(&world);
    let shares: Vec<usize> = (0..3).map(|place| of(place, &whole)).collect();
    assert_eq!(shares.iter().sum::<usize>(), partitions);
    assert!(
        shares.iter().all(|share| *share > partitions / 4),
        "{shares:?}"
    );

    // A node that is alive with another store holds nothing of its partitions: others take them.
    world.says_store(world.ids[0], Id([9; 16]));
    let others = first_live(&world);
    let without_own = |first: &Vec<usize>| first.iter().copied().filter(|p| *p != 0).collect();
    let others: Vec<Vec<usize>> = others.iter().map(without_own).collect();
    assert_eq!(of(1, &others) + of(2, &others), partitions);

    // The last node left has all.
    world.kill(1);
    assert!(first_live(&world).iter().all(|first| first.contains(&2)));
}
