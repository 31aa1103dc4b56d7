//! `archipel lifecycle`

use archipel_api::admin::types::LifecycleInfo;
use clap::Subcommand;

use super::progress::{LOOK, Progress, bar};
use super::table;
use super::target::Target;
use crate::client::{Client, Failure};
use crate::config::size;

/// The length of a day in seconds, unless a test makes it shorter.
const DAY_SECONDS: u64 = 86_400;

/// The subcommands of `archipel lifecycle`.
#[derive(Subcommand)]
pub enum Command {
    /// Show what the server removed by lifecycle rules, and when it looks next
    Status,
    /// Apply all rules now, instead of after midnight. A walk that was cancelled begins again
    Start {
        /// Wait for the end of the walk. Exit status 1 if removals failed
        #[arg(long)]
        wait: bool,
    },
}

/// Runs a subcommand.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let client = target.client()?;
    let info: LifecycleInfo = match command {
        Command::Status => client.get("/v1/lifecycle").await?,
        Command::Start { wait } => {
            let started = client.post("/v1/lifecycle/start", &()).await?;
            if wait {
                return walked(target, &client, started).await;
            }
            started
        }
    };
    print(target, &info)
}

/// Waits for the end of a walk, and prints its result. Fails if removals failed meanwhile.
async fn walked(target: &Target, client: &Client, started: LifecycleInfo) -> Result<(), Failure> {
    let failed_before = started.failed;
    let (mut info, mut progress) = (started, Progress::new());
    while info.running || info.waiting {
        // The counts are those of the walk before until this one begins.
        let done = if info.running { info.parts_done } else { 0 };
        let removed = info.expired_objects + info.expired_versions + info.expired_markers;
        progress.show(&format!(
            "{} {done} of {} parts, {removed} removed since the start of the server",
            bar(done, info.parts),
            info.parts
        ));
        tokio::time::sleep(LOOK).await;
        info = client.get("/v1/lifecycle").await?;
    }
    progress.end();
    print(target, &info)?;
    match info.failed.saturating_sub(failed_before) {
        0 => Ok(()),
        failed => Err(Failure::new(format!(
            "{failed} removals failed; the server tries them again, and its log says why"
        ))),
    }
}

fn print(target: &Target, info: &LifecycleInfo) -> Result<(), Failure> {
    match target.json {
        true => table::print_json(info),
        false => show(info),
    }
}

fn show(info: &LifecycleInfo) -> Result<(), Failure> {
    let mut pairs = vec![
        ("buckets with rules", info.buckets.to_string()),
        ("walk", walk_line(info)),
        ("removed", removed_line(info)),
    ];
    if info.failed > 0 {
        let failed = format!("{} removals failed; they are tried again", info.failed);
        pairs.push(("trouble", failed));
    }
    if info.day_seconds != DAY_SECONDS {
        let day = format!("{} s: for tests only", info.day_seconds);
        pairs.push(("a day lasts", day));
    }
    table::print_pairs(&pairs)
}

fn walk_line(info: &LifecycleInfo) -> String {
    if info.running {
        let (done, all) = (info.parts_done, info.parts);
        return format!(
            "{done} of {all} parts done; started {} ago",
            table::age(info.began_ms)
        );
    }
    if info.waiting {
        return "begins in a moment".into();
    }
    let last = match info.ended_ms {
        0 => "none since the start".into(),
        ended => format!("done {} ago", table::age(ended)),
    };
    match info.next_ms {
        Some(next) => format!("{last}; the next starts in {}", table::until(next)),
        None => format!("{last}; no bucket has rules"),
    }
}

fn removed_line(info: &LifecycleInfo) -> String {
    format!(
        "{} objects, {} older versions, {} delete markers ({}) and {} uploads since the start; {} rows \
         looked at",
        info.expired_objects,
        info.expired_versions,
        info.expired_markers,
        size::show(info.expired_bytes),
        info.aborted_uploads,
        info.examined
    )
}
