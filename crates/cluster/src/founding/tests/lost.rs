//! Machines that lose their disks, are cut in two halves, or have a wrong number of first nodes.

use super::*;

/// Returns machines of which the first ones have formed a layout. The others do not run yet.
async fn formed(machines: usize, first_nodes: u16, seed: u64) -> (Site, BTreeSet<Id>) {
    let mut site = Site::new(machines, first_nodes, seed);
    let mut seen = BTreeSet::new();
    site.told = first_nodes.into();
    for n in 0..site.told {
        site.start(n).await;
    }
    let formed = async {
        while site.clusters().len() < site.told {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(LONG, formed).await.unwrap();
    site.check(&mut seen);
    site.told = machines;
    (site, seen)
}

#[tokio::test(start_paused = true)]
async fn a_node_with_an_empty_disk_joins_the_cluster_that_exists() {
    for seed in 0..6 {
        let (mut site, mut seen) = formed(3, 3, seed).await;
        let lost = seed as usize % 3;
        site.wipe(lost);
        if seed >= 3 {
            site.cut_off(&[lost]);
            site.start(lost).await;
            tokio::time::sleep(LONG).await;
            assert_eq!(site.cluster_of(lost), None);
        }
        site.start_all().await;
        site.wait_for_all(&mut seen).await;
        (0..3).for_each(|n| site.crash(n));
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_with_empty_disks_wait_for_the_node_that_kept_its_disk() {
    for seed in 0..3 {
        let (mut site, mut seen) = formed(3, 3, seed).await;
        let kept = seed as usize % 3;
        let lost: Vec<usize> = (0..3).filter(|n| *n != kept).collect();
        lost.iter().for_each(|n| site.wipe(*n));
        site.crash(kept);
        for n in &lost {
            site.start(*n).await;
        }
        tokio::time::sleep(LONG).await;
        assert!(site.clusters().is_empty());
        site.start_all().await;
        site.wait_for_all(&mut seen).await;
        (0..3).for_each(|n| site.crash(n));
    }
}

#[tokio::test(start_paused = true)]
async fn disks_that_are_lost_at_any_moment_make_no_second_layout() {
    let mut formed = 0;
    for seed in 0..12 {
        let mut site = Site::new(3, 3, seed);
        let mut seen = BTreeSet::new();
        for _ in 0..4 {
            site.storm(8, &mut seen).await;
            // The third one keeps its disk: it is the memory of this cluster.
            let lost = site.below(2);
            site.wipe(lost);
        }
        site.start_all().await;
        tokio::time::sleep(LONG).await;
        site.check(&mut seen);
        formed += usize::from(!seen.is_empty());
        (0..3).for_each(|n| site.crash(n));
    }
    assert!(formed > 3, "layouts: {formed}");
}

#[tokio::test(start_paused = true)]
async fn halves_that_are_cut_apart_wait_for_each_other() {
    for (machines, first_nodes, together) in [(4, 4, true), (6, 3, false)] {
        let mut site = Site::new(machines, first_nodes, 5);
        let half: Vec<usize> = (0..machines / 2).collect();
        site.cut_off(&half);
        for n in 0..machines {
            site.start(n).await;
        }
        tokio::time::sleep(LONG).await;
        assert!(site.clusters().is_empty(), "{:?}", site.clusters());
        site.network.end_all_cuts();
        if together {
            site.wait_for_all(&mut BTreeSet::new()).await;
        } else {
            // They are too many, and an operator must say what is meant.
            tokio::time::sleep(LONG).await;
            assert!(site.clusters().is_empty(), "{:?}", site.clusters());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn new_nodes_that_are_cut_off_from_the_cluster_form_none() {
    for seed in 0..3 {
        let (mut site, mut seen) = formed(6, 3, seed).await;
        site.cut_off(&[3, 4, 5]);
        for n in 3..6 {
            site.start(n).await;
        }
        tokio::time::sleep(LONG).await;
        site.check(&mut seen);
        assert_eq!(site.clusters().len(), 3);
        site.start_all().await;
        site.wait_for_all(&mut seen).await;
        (0..6).for_each(|n| site.crash(n));
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_number_on_one_machine_forms_nothing_until_it_is_right() {
    for (machines, wrong) in [(3, 2), (3, 4), (4, 2), (4, 3), (4, 9)] {
        let mut site = Site::new(machines, machines as u16, 3);
        let mistaken = site.below(machines);
        site.machines[mistaken].first_nodes = wrong;
        let mut seen = BTreeSet::new();
        site.storm(12, &mut seen).await;
        site.start_all().await;
        tokio::time::sleep(LONG).await;
        assert!(site.clusters().is_empty(), "{:?}", site.clusters());
        site.crash(mistaken);
        site.machines[mistaken].first_nodes = machines as u16;
        site.start_all().await;
        site.wait_for_all(&mut seen).await;
        (0..machines).for_each(|n| site.crash(n));
    }
}
