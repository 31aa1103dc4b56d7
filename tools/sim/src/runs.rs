//! `sim run`: clusters with faults, one seed after another.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use archipel_base::clock::{SystemClock, WallClock};
use archipel_cluster::register::Rules;
use archipel_cluster::register::rules::Mutant;
use sim::cluster::judge::Counts;
use sim::cluster::{Options, simulate};

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// How many seeds
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Replay this seed alone and tell what happens
    #[arg(long)]
    seed: Option<u64>,
    /// Break this rule, to see that it is noticed (`answer-before-sync` or a mutant of the register)
    #[arg(long)]
    mutant: Option<String>,
    /// Threads
    #[arg(long, default_value_t = 2)]
    threads: u64,
}

/// Runs the seeds; tells whether all were right.
pub fn run(args: &Args) -> bool {
    let Some(options) = options(args) else {
        println!(
            "no such mutant; there are answer-before-sync and {:?}",
            Mutant::ALL
        );
        return false;
    };
    match args.seed {
        Some(seed) => replay(seed, options),
        None => run_many(args, options),
    }
}

fn options(args: &Args) -> Option<Options> {
    let mut options = Options {
        trace: args.seed.is_some(),
        ..Options::default()
    };
    match args.mutant.as_deref() {
        None => {}
        Some("answer-before-sync") => options.answer_before_sync = true,
        Some(name) => {
            let named = Mutant::ALL.into_iter().find(|m| format!("{m:?}") == name)?;
            options.rules = Rules::broken(named);
        }
    }
    Some(options)
}

fn replay(seed: u64, options: Options) -> bool {
    let verdict = simulate(seed, options);
    let quiet = Options {
        trace: false,
        ..options
    };
    let again = simulate(seed, quiet);
    println!("{:?}", verdict.counts);
    println!("run {:016x}, run again {:016x}", verdict.hash, again.hash);
    match &verdict.violation {
        None => println!("seed {seed}: all is well"),
        Some(violation) => println!("seed {seed}: VIOLATION: {violation}"),
    }
    verdict.violation.is_none() && verdict.hash == again.hash
}

/// What a number of runs came to.
#[derive(Default)]
struct Total {
    counts: Counts,
    bad: Vec<(u64, String)>,
}

fn run_many(args: &Args, options: Options) -> bool {
    let began = SystemClock.now_millis();
    let next = AtomicU64::new(args.first);
    let total = Mutex::new(Total::default());
    std::thread::scope(|scope| {
        for _ in 0..args.threads {
            scope.spawn(|| work(args, options, &next, &total));
        }
    });
    let total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    let took = Duration::from_millis(SystemClock.now_millis() - began);
    report(args, &total, took)
}

fn work(args: &Args, options: Options, next: &AtomicU64, total: &Mutex<Total>) {
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= args.first + args.seeds {
            return;
        }
        let verdict = simulate(seed, options);
        // One in a hundred is run twice: the same seed must give the same run.
        let differs = seed.is_multiple_of(100) && simulate(seed, options).hash != verdict.hash;
        let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
        total.counts.add(&verdict.counts);
        if let Some(violation) = verdict.violation {
            total.bad.push((seed, violation));
        } else if differs {
            total
                .bad
                .push((seed, "a second run went another way".into()));
        }
    }
}

fn report(args: &Args, total: &Total, took: Duration) -> bool {
    let c = &total.counts;
    println!(
        "{} seeds in {:.1} s: {} operations answered, {} unknown, {} refused; {} power cuts, {} disks lost, {} floors, {} epochs",
        args.seeds,
        took.as_secs_f64(),
        c.told,
        c.unknown,
        c.refused,
        c.crashes,
        c.disks_lost,
        c.floors,
        c.epochs,
    );
    let mut bad: Vec<_> = total.bad.iter().collect();
    bad.sort();
    for (seed, violation) in bad.iter().take(5) {
        println!("seed {seed}: {violation}");
    }
    let good = bad.is_empty();
    println!(
        "verdict: {}",
        if good {
            "no violation".into()
        } else {
            format!("{} VIOLATIONS", bad.len())
        }
    );
    good
}
