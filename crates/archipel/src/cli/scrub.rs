//! `archipel scrub`

use archipel_api::admin::types::{RepairCounts, ScrubInfo, StartScrub, Upkeep};
use clap::Subcommand;

use super::progress::{LOOK, Progress, bar};
use super::table;
use super::target::Target;
use crate::client::{Client, Failure};
use crate::config::size;

/// The subcommands of `archipel scrub`.
#[derive(Subcommand)]
pub enum Command {
    /// Start reading and verifying all data of the server now
    Start {
        /// The read rate, in MB a second
        #[arg(long, value_name = "MB/S")]
        rate: Option<u64>,
        /// Wait until everything was read. Exit status 1 if damaged blocks could not be repaired
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
                rate: rate.map(|megabytes| megabytes.saturating_mul(1_000_000)),
            };
            let started = client.post("/v1/scrub/start", &ask).await?;
            if wait {
                return ended(target, &follow(&client, started).await?);
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

/// Shows the result of a scrub. Fails if damage is left.
fn ended(target: &Target, upkeep: &Upkeep) -> Result<(), Failure> {
    match target.json {
        true => table::print_json(upkeep)?,
        false => show(upkeep)?,
    }
    match upkeep.repair.stuck {
        0 => Ok(()),
        stuck => Err(Failure::new(format!(
            "{stuck} damaged blocks could not be repaired yet: archipel repair says what to do"
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
        ended => format!(
            "done {} ago: {} blocks, {found}",
            table::age(ended),
            scrub.blocks
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
    let waiting = match (repair.waiting, repair.stuck) {
        (0, _) => "no damage is known".into(),
        (waiting, 0) => format!("{waiting} blocks are being repaired"),
        (waiting, stuck) => format!("{waiting} blocks, of which {stuck} could not be repaired yet"),
    };
    match repair.repaired {
        0 => waiting,
        repaired => format!("{waiting}; {repaired} repaired since the start"),
    }
}
