//! `archipel scrub`

use archipel_api::admin::types::{MendingInfo, ScrubInfo, StartScrub, Upkeep};
use clap::Subcommand;

use super::table;
use super::target::Target;
use crate::client::Failure;
use crate::config::size;

/// What can be done with scrubs.
#[derive(Subcommand)]
pub enum Command {
    /// Begin to read and verify everything that the server stores, now
    Start {
        /// How fast, in MB a second
        #[arg(long, value_name = "MB/S")]
        rate: Option<u64>,
    },
    /// Show how far it is, and what became of damaged blocks
    Status,
    /// End it; the next one begins by itself in its time
    Stop,
}

/// Does it.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let client = target.client()?;
    let upkeep: Upkeep = match command {
        Command::Start { rate } => {
            let ask = StartScrub {
                rate: rate.map(|megabytes| megabytes.saturating_mul(1_000_000)),
            };
            client.post("/v1/scrub/start", &ask).await?
        }
        Command::Status => client.get("/v1/scrub").await?,
        Command::Stop => {
            client
                .post("/v1/scrub/stop", &StartScrub::default())
                .await?
        }
    };
    match target.json {
        true => table::print_json(&upkeep),
        false => show(&upkeep),
    }
}

fn show(upkeep: &Upkeep) -> Result<(), Failure> {
    table::print_pairs(&[
        ("scrub", scrub(&upkeep.scrub)),
        ("damaged", mending(&upkeep.mending)),
    ])?;
    upkeep.mending.troubles.iter().try_for_each(|trouble| {
        let used_by = trouble.used_by.join(", ");
        table::text(&format!("  {}: {}; {used_by}", trouble.block, trouble.why))
    })
}

/// Scrubbing in a line.
pub fn scrub(scrub: &ScrubInfo) -> String {
    let found = match scrub.damaged {
        0 => "nothing damaged".into(),
        damaged => format!("{damaged} damaged"),
    };
    if scrub.running {
        return format!(
            "{} % verified, at {} a second; {found}; began {} ago",
            percent(scrub),
            size::show(scrub.rate),
            table::age(scrub.began_ms),
        );
    }
    let last = match scrub.ended_ms {
        0 => "never done".into(),
        ended => format!(
            "done {} ago: {} blocks, {found}",
            table::age(ended),
            scrub.blocks
        ),
    };
    match scrub.next_ms {
        Some(next) => format!("{last}; the next begins in {}", table::until(next)),
        None => format!("{last}; none begins by itself"),
    }
}

/// How much of what is stored was verified. Not 100 before the end: what is stored may have grown.
pub fn percent(scrub: &ScrubInfo) -> u64 {
    match scrub.stored_bytes {
        0 => 0,
        stored => (u128::from(scrub.bytes) * 100 / u128::from(stored)).min(99) as u64,
    }
}

/// Mending in a line.
pub fn mending(mending: &MendingInfo) -> String {
    let waiting = match (mending.waiting, mending.stuck) {
        (0, _) => "nothing known to be damaged".into(),
        (waiting, 0) => format!("{waiting} blocks are being mended"),
        (waiting, stuck) => format!("{waiting} blocks, of which {stuck} could not be mended yet"),
    };
    match mending.mended {
        0 => waiting,
        mended => format!("{waiting}; {mended} mended since the start"),
    }
}
