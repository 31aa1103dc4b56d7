//! `archipel scrub`

use archipel_api::admin::types::{RepairCounts, ScrubInfo, StartScrub, Upkeep};
use clap::Subcommand;

use super::progress::{LOOK, Progress, attended, bar};
use super::table;
use super::target::Target;
use crate::client::{Client, Failure};
use crate::config::size;

/// The message to a person who ends the wait.
const GOES_ON: &str = "the scrub goes on in the background: archipel scrub status shows it, archipel scrub stop stops it";

/// The subcommands of `archipel scrub`.
#[derive(Subcommand)]
pub enum Command {
    /// Start reading and verifying all data of the server now
    Start {
        /// The read rate, in MiB a second
        #[arg(long, value_name = "MIB/S")]
        rate: Option<u64>,
        /// Wait until everything was read. Exit status 1 if it was not, or if damage is left
        #[arg(long)]
        wait: bool,
    },
    /// Show the progress, and the state of damaged blocks
    Status,
    /// Stop the scrub; the next one starts when it is due
    Stop,
}

/// Runs a subcommand.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let client = target.client()?;
    let upkeep: Upkeep = match command {
        Command::Start { rate, wait } => {
            let ask = StartScrub {
                rate: rate.map(bytes_a_second),
            };
            let started: Upkeep = client.post("/v1/scrub/start", &ask).await?;
            if wait {
                let begun = started.scrub.clone();
                let upkeep = attended(GOES_ON, follow(&client, started)).await?;
                return ended(target, &begun, &upkeep);
            }
            started
        }
        Command::Status => client.get("/v1/scrub").await?,
        Command::Stop => {
            client
                .post("/v1/scrub/stop", &StartScrub::default())
                .await?
        }
    };
    if target.json {
        table::print_json(&upkeep)
    } else {
        show(&upkeep)
    }
}

/// Returns a rate in bytes that an option has in MiB.
pub fn bytes_a_second(mebibytes: u64) -> u64 {
    mebibytes.saturating_mul(1 << 20)
}

/// Waits for the end of a scrub.
async fn follow(client: &Client, mut upkeep: Upkeep) -> Result<Upkeep, Failure> {
    let began_ms = upkeep.scrub.began_ms;
    let mut progress = Progress::new();
    while upkeep.scrub.running {
        let scrub = &upkeep.scrub;
        let (done, all) = (scrub.bytes, scrub.stored_bytes);
        progress.show(&format!(
            "{} {} of {}, {} damaged",
            // The data may have grown, and the end is told by the server.
            bar(done.min(all.saturating_sub(1)), all),
            size::show(done),
            size::show(all),
            scrub.damaged
        ));
        tokio::time::sleep(LOOK).await;
        upkeep = client.get("/v1/scrub").await?;
        if upkeep.scrub.began_ms < began_ms {
            progress.end();
            let why = "the server restarted during the scrub; fix: start it again";
            return Err(Failure::new(why.into()));
        }
    }
    progress.end();
    Ok(upkeep)
}

/// Returns true if a pass has read everything since a scrub was started: `started` is the answer to
/// that. Times of nodes are not compared with each other, because clocks are set back.
pub fn has_read_all(started: &ScrubInfo, now: &ScrubInfo) -> bool {
    match started.running {
        true => now.ended_ms != started.ended_ms,
        // It was over before the answer.
        false => started.ended_ms >= started.began_ms,
    }
}

/// Shows the result of a scrub. Fails if it was stopped, or if damage is left.
fn ended(target: &Target, started: &ScrubInfo, upkeep: &Upkeep) -> Result<(), Failure> {
    match target.json {
        true => table::print_json(upkeep)?,
        false => show(upkeep)?,
    }
    if !has_read_all(started, &upkeep.scrub) {
        let why = "the scrub was stopped before it had read everything; fix: start it again";
        return Err(Failure::new(why.into()));
    }
    match upkeep.repair.stuck {
        0 => Ok(()),
        stuck => Err(Failure::new(format!(
            "{} could not be repaired yet: archipel repair says what to do",
            table::count(stuck, "damaged block")
        ))),
    }
}

fn show(upkeep: &Upkeep) -> Result<(), Failure> {
    table::print_pairs(&[
        ("scrub", scrub_line(&upkeep.scrub)),
        ("damaged", repair_line(&upkeep.repair)),
    ])?;
    upkeep.repair.troubles.iter().try_for_each(|trouble| {
        let used_by = trouble.used_by.join(", ");
        table::text(&format!("  {}: {}; {used_by}", trouble.block, trouble.why))
    })
}

/// Describes the state of scrubbing in a line.
pub fn scrub_line(scrub: &ScrubInfo) -> String {
    let found = match scrub.damaged {
        0 => "nothing damaged".into(),
        damaged => format!("{damaged} damaged"),
    };
    if scrub.running {
        return format!(
            "{} % verified, at {} a second; {found}; started {} ago",
            percent(scrub),
            size::show(scrub.rate),
            table::age(scrub.began_ms),
        );
    }
    let last = match scrub.ended_ms {
        0 => "never finished".into(),
        ended if !scrub.stopped => format!(
            "done {} ago: {}, {found}",
            table::age(ended),
            table::count(scrub.blocks, "block")
        ),
        // The counts are those of the pass that was stopped.
        ended => format!(
            "stopped {} ago after {}, {found}; the last whole one ended {} ago",
            table::age(scrub.began_ms),
            table::count(scrub.blocks, "block"),
            table::age(ended),
        ),
    };
    match scrub.next_ms {
        Some(next) => format!("{last}; the next starts in {}", table::until(next)),
        None => format!("{last}; none is scheduled"),
    }
}

/// Returns the percentage of verified data. It is below 100 before the end, because the data may
/// have grown.
pub fn percent(scrub: &ScrubInfo) -> u64 {
    match scrub.stored_bytes {
        0 => 0,
        stored => (u128::from(scrub.bytes) * 100 / u128::from(stored)).min(99) as u64,
    }
}

/// Describes the state of block repair in a line.
pub fn repair_line(repair: &RepairCounts) -> String {
    let blocks = table::count(repair.waiting, "block");
    let waiting = match (repair.waiting, repair.stuck) {
        (0, _) => "no damage is known".into(),
        (_, 0) => format!("{blocks} under repair"),
        (_, stuck) => format!("{blocks}, of which {stuck} could not be repaired yet"),
    };
    match repair.repaired {
        0 => waiting,
        repaired => format!("{waiting}; {repaired} repaired since the start"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrub(running: bool, began_ms: u64, ended_ms: u64) -> ScrubInfo {
        ScrubInfo {
            running,
            began_ms,
            ended_ms,
            blocks: 7,
            ..ScrubInfo::default()
        }
    }

    #[test]
    fn a_rate_is_shown_as_it_is_written() {
        let running = ScrubInfo {
            rate: bytes_a_second(100),
            ..scrub(true, 20, 10)
        };
        let line = scrub_line(&running);
        assert!(line.contains("at 100.0 MiB a second"), "{line}");
    }

    #[test]
    fn a_scrub_that_was_stopped_has_not_read_all() {
        let started = scrub(true, 20, 10);
        assert!(has_read_all(&started, &scrub(false, 20, 30)));
        assert!(!has_read_all(&started, &scrub(false, 25, 10)), "stopped");
        assert!(!has_read_all(&scrub(true, 20, 0), &scrub(false, 25, 0)));
        // Another one was started meanwhile.
        assert!(has_read_all(&started, &scrub(false, 25, 30)));
        // The clock was set back by much.
        assert!(has_read_all(&started, &scrub(false, 20, 5)));
        // It had ended when the answer was made.
        let over = scrub(false, 20, 21);
        assert!(has_read_all(&over, &over));
    }

    #[test]
    fn counts_of_a_stopped_scrub_are_not_those_of_the_last_whole_one() {
        let stopped = ScrubInfo {
            stopped: true,
            ..scrub(false, 20, 10)
        };
        let line = scrub_line(&stopped);
        assert!(line.starts_with("stopped"), "{line}");
        assert!(line.contains("after 7 blocks"), "{line}");
        assert!(scrub_line(&scrub(false, 10, 20)).starts_with("done"));
        // It was told to stop while it did not run, or the clock was set back during the pass.
        assert!(scrub_line(&scrub(false, 20, 10)).starts_with("done"));
    }
}
