//! Tests of the random choices of clients.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

fn plan(arguments: &[&str]) -> Outcome<Plan> {
    let all = std::iter::once("mixed").chain(arguments.iter().copied());
    Plan::new(&Cli::try_parse_from(all).unwrap().args)
}

#[test]
fn sizes_are_fixed_or_drawn_within_bounds() {
    let fixed = plan(&["--size", "4718592"]).unwrap();
    assert!((0..100).all(|number| fixed.size(number) == 4_718_592));
    let drawn = plan(&["--size", "1024-1048576"]).unwrap();
    let sizes: Vec<usize> = (0..10_000).map(|number| drawn.size(number)).collect();
    assert!(sizes.iter().all(|size| (1024..=1_048_576).contains(size)));
    // Sizes are even among orders of magnitude, so that half of them lie below the middle one.
    let small = sizes.iter().filter(|size| **size < 32_768).count();
    assert!((4_700..5_300).contains(&small), "{small}");
}

#[test]
fn open_loop_requests_are_due_at_fixed_times() {
    let plan = plan(&["--rate", "100"]).unwrap();
    let start = Instant::now();
    let due: Vec<_> = (0..3).filter_map(|_| plan.next_due(start)).collect();
    assert_eq!(due.len(), 3);
    assert_eq!(due[2] - due[0], Duration::from_millis(20));
}

#[test]
fn invalid_options_are_refused() {
    assert!(plan(&["--weights", "1,2"]).is_err());
    assert!(plan(&["--weights", "0,0,0,0"]).is_err());
    assert!(plan(&["--size", "x"]).is_err());
}
