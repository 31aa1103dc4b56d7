//! `sim run`: clusters with faults, one seed after another.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use archipel_base::clock::{SystemClock, WallClock};
use parking_lot::Mutex;
use sim::{cluster, nodes};

mod kinds;

use kinds::Kind;

/// The interval of progress lines.
const PROGRESS_MS: u64 = 10_000;

/// The options of `sim run`.
#[derive(clap::Args)]
pub struct Args {
    /// The number of seeds
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Replay only this seed and print what happens
    #[arg(long)]
    seed: Option<u64>,
    /// Run only the register's state machines, or only whole nodes (default: both)
    #[arg(long)]
    only: Option<Only>,
    /// Break this rule, to see that a checker notices (`answer-before-sync` or a mutant of the
    /// register)
    #[arg(long)]
    mutant: Option<String>,
    /// The number of threads
    #[arg(long, default_value_t = 2)]
    threads: u64,
}

/// A choice between the kinds of runs.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Only {
    Register,
    Nodes,
}

/// Runs the seeds. Returns true if none had a violation.
pub fn run(args: &Args) -> bool {
    let wanted = |kind| args.only.is_none_or(|only| only == kind);
    let register = wanted(Only::Register).then(|| run_kind::<cluster::Options>(args));
    let nodes = wanted(Only::Nodes).then(|| run_kind::<nodes::Options>(args));
    let run: Vec<bool> = [register, nodes].into_iter().flatten().flatten().collect();
    if run.is_empty() {
        println!("no such mutant; there are {}", kinds::mutants());
    }
    !run.is_empty() && run.into_iter().all(|good| good)
}

/// Runs the seeds of one kind. Returns `None` if this kind has no such mutant.
fn run_kind<K: Kind>(args: &Args) -> Option<bool> {
    let mut kind = K::default();
    let is_known = args
        .mutant
        .as_ref()
        .is_none_or(|name| kind.break_rule(name));
    is_known.then(|| match args.seed {
        Some(seed) => replay(seed, kind),
        None => run_many(args, kind),
    })
}

fn replay<K: Kind>(seed: u64, kind: K) -> bool {
    let ran = kind.tracing().simulate(seed);
    let again = kind.simulate(seed);
    println!("{}: {}", K::NAME, K::describe(&ran.counts));
    println!("run {:016x}, run again {:016x}", ran.hash, again.hash);
    match &ran.violation {
        None => println!("{} seed {seed}: all is well", K::NAME),
        Some(violation) => println!("{} seed {seed}: VIOLATION: {violation}", K::NAME),
    }
    ran.violation.is_none() && ran.hash == again.hash
}

/// The sum of a number of runs.
struct Total<C> {
    counts: C,
    bad: Vec<(u64, String)>,
    done: u64,
    /// The time of the last progress line, in milliseconds since 1970.
    printed_ms: u64,
}

fn run_many<K: Kind>(args: &Args, kind: K) -> bool {
    let began = SystemClock.now_millis();
    let next = AtomicU64::new(args.first);
    let total = Mutex::new(Total {
        counts: K::Counts::default(),
        bad: Vec::new(),
        done: 0,
        printed_ms: began,
    });
    std::thread::scope(|scope| {
        for _ in 0..args.threads {
            scope.spawn(|| work(args, kind, &next, &total));
        }
    });
    let total = total.into_inner();
    let took = Duration::from_millis(SystemClock.now_millis() - began);
    report::<K>(args, &total, took)
}

fn work<K: Kind>(args: &Args, kind: K, next: &AtomicU64, total: &Mutex<Total<K::Counts>>) {
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= args.first + args.seeds {
            return;
        }
        let ran = kind.simulate(seed);
        // One seed in a hundred runs twice, because the same seed must give the same run.
        let differs = seed.is_multiple_of(100) && kind.simulate(seed).hash != ran.hash;
        let mut total = total.lock();
        K::add(&mut total.counts, &ran.counts);
        total.done += 1;
        let again = differs.then(|| "a second run differed".into());
        if let Some(violation) = ran.violation.or(again) {
            eprintln!("{} seed {seed}: {violation}", K::NAME);
            total.bad.push((seed, violation));
        }
        print_progress::<K>(args, &mut total);
    }
}

/// Prints the progress now and then, so that it is known if a user interrupts the runs.
fn print_progress<K: Kind>(args: &Args, total: &mut Total<K::Counts>) {
    let now = SystemClock.now_millis();
    if now.saturating_sub(total.printed_ms) >= PROGRESS_MS {
        total.printed_ms = now;
        let (done, bad) = (total.done, total.bad.len());
        eprintln!(
            "{}: {done} of {} seeds, {bad} violations",
            K::NAME,
            args.seeds
        );
    }
}

fn report<K: Kind>(args: &Args, total: &Total<K::Counts>, took: Duration) -> bool {
    println!(
        "{}: {} seeds in {:.1} s: {}",
        K::NAME,
        args.seeds,
        took.as_secs_f64(),
        K::describe(&total.counts),
    );
    let mut bad: Vec<_> = total.bad.iter().collect();
    bad.sort();
    for (seed, violation) in bad.iter().take(5) {
        println!("seed {seed}: {violation}");
    }
    let good = bad.is_empty();
    let verdict = if good {
        "no violation".into()
    } else {
        format!("{} VIOLATIONS", bad.len())
    };
    println!("{} verdict: {verdict}", K::NAME);
    good
}
