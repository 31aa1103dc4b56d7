//! `archipel lifecycle`

use archipel_api::admin::types::LifecycleInfo;
use clap::Subcommand;

use super::progress::{HeldUp, LOOK, PATIENCE, Progress, attended, bar, suffix};
use super::table;
use super::target::Target;
use crate::client::{Client, Failure};
use crate::config::size;

/// The length of a day in seconds, unless a test makes it shorter.
const DAY_SECONDS: u64 = 86_400;

/// The message to a person who ends the wait.
const GOES_ON: &str = "the walk goes on in the background: archipel lifecycle status shows it, archipel operation cancel lifecycle stops it";

/// The subcommands of `archipel lifecycle`.
#[derive(Subcommand)]
pub enum Command {
    /// Show what the server removed by lifecycle rules, and when it looks next
    Status,
    /// Apply all rules now, instead of after midnight. A walk that was cancelled begins again
    Start {
        /// Wait for the end of the walk. Exit status 1 if it cannot begin or did not reach its end, or
        /// if removals failed
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

/// Waits for the end of a walk, and prints its result. Fails unless it was through and no removal
/// failed meanwhile.
async fn walked(target: &Target, client: &Client, started: LifecycleInfo) -> Result<(), Failure> {
    let failed_before = started.failed;
    let info = attended(GOES_ON, follow(client, started)).await?;
    print(target, &info)?;
    failure(&info, failed_before).map_or(Ok(()), |why| Err(Failure::new(why)))
}

/// Returns the state once the walk is over, or once it is clear that it cannot begin.
async fn follow(client: &Client, started: LifecycleInfo) -> Result<LifecycleInfo, Failure> {
    let (mut info, mut progress, mut held_up) = (started, Progress::new(), HeldUp::default());
    while info.running || info.waiting {
        if held_up.note(!info.running && info.trouble.is_some(), PATIENCE) {
            break;
        }
        // The counts are those of the walk before until this one begins.
        let done = if info.running { info.parts_done } else { 0 };
        let removed = info.expired_objects + info.expired_versions + info.expired_markers;
        progress.show(&format!(
            "{} {done} of {} parts, {removed} removed since the start of the server{}",
            bar(done, info.parts),
            info.parts,
            suffix(info.trouble.as_deref())
        ));
        tokio::time::sleep(LOOK).await;
        info = client.get("/v1/lifecycle").await?;
    }
    progress.end();
    Ok(info)
}

/// Returns why a walk did not end well. `failed_before` removals had failed before it was asked
/// for.
fn failure(info: &LifecycleInfo, failed_before: u64) -> Option<String> {
    let (done, all) = (info.parts_done, info.parts);
    let failed = info.failed.saturating_sub(failed_before);
    match &info.trouble {
        trouble if info.waiting => {
            let why = trouble.as_deref().unwrap_or("for no known reason");
            Some(format!("no walk begins: {why}"))
        }
        trouble if done < all => {
            let why = trouble.as_deref().unwrap_or("it was cancelled");
            Some(format!("the walk ended after {done} of {all} parts: {why}"))
        }
        _ if failed > 0 => Some(format!(
            "{} failed; the server tries again, and its log says why",
            table::count(failed, "removal")
        )),
        _ => None,
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
    if let Some(why) = &info.trouble {
        pairs.push(("not walked", why.clone()));
    }
    if info.failed > 0 {
        let failed = format!(
            "{} failed; the server tries again",
            table::count(info.failed, "removal")
        );
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
        ended if info.parts_done < info.parts => format!(
            "ended {} ago after {} of {} parts",
            table::age(ended),
            info.parts_done,
            info.parts
        ),
        ended => format!("done {} ago", table::age(ended)),
    };
    match info.next_ms {
        Some(next) => format!("{last}; the next starts in {}", table::until(next)),
        None => format!("{last}; no bucket has rules"),
    }
}

fn removed_line(info: &LifecycleInfo) -> String {
    format!(
        "{}, {}, {} ({}) and {} since the start; {} looked at",
        table::count(info.expired_objects, "object"),
        table::count(info.expired_versions, "older version"),
        table::count(info.expired_markers, "delete marker"),
        size::show(info.expired_bytes),
        table::count(info.aborted_uploads, "upload"),
        table::count(info.examined, "row")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_ends_well_if_it_was_through_and_nothing_failed() {
        let whole = LifecycleInfo {
            parts: 8,
            parts_done: 8,
            failed: 3,
            ..LifecycleInfo::default()
        };
        assert_eq!(failure(&whole, 3), None);
        assert!(failure(&whole, 2).is_some_and(|why| why.starts_with("1 removal failed;")));
        let left = LifecycleInfo {
            parts_done: 5,
            ..whole.clone()
        };
        let told = "the walk ended after 5 of 8 parts: it was cancelled";
        assert_eq!(failure(&left, 3).as_deref(), Some(told));
        assert!(
            walk_line(&LifecycleInfo {
                ended_ms: 1,
                ..left.clone()
            })
            .contains("5 of 8")
        );
        let broken = LifecycleInfo {
            trouble: Some("unavailable".into()),
            ..left
        };
        let told = "the walk ended after 5 of 8 parts: unavailable";
        assert_eq!(failure(&broken, 3).as_deref(), Some(told));
        let waits = LifecycleInfo {
            waiting: true,
            trouble: Some("this node is in no layout".into()),
            ..whole
        };
        let told = "no walk begins: this node is in no layout";
        assert_eq!(failure(&waits, 3).as_deref(), Some(told));
    }
}
