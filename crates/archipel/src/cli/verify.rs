//! `archipel verify`

use std::process::ExitCode;

use archipel_api::admin::types::{StartVerify, VerifyInfo, VerifyNode};
use clap::Args;

use super::failure;
use super::progress::{LOOK, Progress, attended, bar};
use super::table;
use super::target::Target;
use crate::client::{Client, Failure};

/// `archipel verify`
#[derive(Args)]
pub struct VerifyArgs {
    /// Also read every block and compare it with its name
    #[arg(long)]
    deep: bool,
    /// The server.
    #[command(flatten)]
    target: Target,
}

/// The message to a person who ends the wait.
const GOES_ON: &str = "the verification goes on in the background: archipel operation info verification shows it, archipel operation cancel verification stops it";

/// The exit status if a part could not be checked.
const UNCHECKED: u8 = 2;

/// Returns the exit status of a verification: 0 if all is well, 1 if there are problems, 2 if a
/// part could not be checked, and that of Ctrl-C if it ended the wait.
pub fn exit(result: Result<ExitCode, Failure>) -> ExitCode {
    result.unwrap_or_else(|failure| {
        failure::print(&failure);
        match failure.is_interrupted() {
            true => failure.exit(),
            false => ExitCode::from(UNCHECKED),
        }
    })
}

/// Verifies the cluster and shows the result.
pub async fn run(args: VerifyArgs) -> Result<ExitCode, Failure> {
    let client = args.target.client()?;
    let started = start(&client, args.deep).await?;
    let info = attended(GOES_ON, follow(&client, started)).await?;
    if args.target.json {
        table::print_json(&info)?
    } else {
        show(&info)?
    }
    Ok(ExitCode::from(code(&info)))
}

/// Returns the exit status of a result. A verification that was stopped has not checked everything,
/// whatever its parts tell.
fn code(info: &VerifyInfo) -> u8 {
    match (info.problems(), info.unchecked().is_empty()) {
        (0, true) if !info.stopped => 0,
        (0, _) => UNCHECKED,
        _ => 1,
    }
}

/// Starts a verification. If one is already running, it is followed.
async fn start(client: &Client, deep: bool) -> Result<VerifyInfo, Failure> {
    match client.post("/v1/verify", &StartVerify { deep }).await {
        Ok(info) => Ok(info),
        Err(failure) => match client.get::<VerifyInfo>("/v1/verify").await {
            Ok(info) if info.began_ms > 0 && info.ended_ms == 0 && info.deep >= deep => Ok(info),
            _ => Err(failure),
        },
    }
}

/// Returns the result once the verification is over.
async fn follow(client: &Client, started: VerifyInfo) -> Result<VerifyInfo, Failure> {
    let (mut info, mut progress) = (started, Progress::new());
    while info.ended_ms == 0 {
        progress.show(&line(&info));
        tokio::time::sleep(LOOK).await;
        info = client.get("/v1/verify").await?;
        if info.began_ms == 0 {
            progress.end();
            return Err(Failure::new(
                "the server restarted during the verification".into(),
            ));
        }
    }
    progress.end();
    Ok(info)
}

/// Describes the progress of all nodes in a line.
fn line(info: &VerifyInfo) -> String {
    let each = info.nodes.iter().map(|node| match (node.ended, node.all) {
        (true, _) => format!("{} done", node.short),
        (false, 0) => format!("{} starting", node.short),
        (false, all) => format!("{} {} {}", node.short, bar(node.done, all), node.step),
    });
    each.collect::<Vec<_>>().join("  ")
}

fn show(info: &VerifyInfo) -> Result<(), Failure> {
    let rows: Vec<[String; 6]> = info.nodes.iter().map(row).collect();
    table::print(
        ["NODE", "ROWS", "BLOCKS", "READ", "COMPARED", "WRONG"],
        &rows,
    )?;
    for node in &info.nodes {
        for what in &node.told {
            table::text(&format!("node {}: {what}", node.short))?;
        }
        if node.problems > node.told.len() as u64 {
            let more = node.problems - node.told.len() as u64;
            table::text(&format!("node {}: and {more} more", node.short))?;
        }
    }
    for what in info.unchecked() {
        table::text(&format!("not checked: {what}"))?;
    }
    table::text("")?;
    table::text(&verdict(info))
}

fn row(node: &VerifyNode) -> [String; 6] {
    match node.away {
        Some(_) => [node.short.as_str(), "-", "-", "-", "-", "-"].map(String::from),
        None => [
            node.short.clone(),
            node.rows.to_string(),
            node.blocks.to_string(),
            node.verified.to_string(),
            node.compared.to_string(),
            node.problems.to_string(),
        ],
    }
}

fn verdict(info: &VerifyInfo) -> String {
    let depth = if info.deep {
        "every row and block was read"
    } else {
        "every row was read; --deep also reads blocks"
    };
    match (info.problems(), info.unchecked().len()) {
        (0, 0) if info.stopped => {
            "no problems were found before the verification was stopped".into()
        }
        (0, 0) => format!("no problems: {depth}, and the replicas are equal"),
        (0, unchecked) => {
            let unchecked = table::count(unchecked as u64, "check");
            format!("no problems were found, but {unchecked} could not be done")
        }
        (problems, _) => format!(
            "found {}; damaged blocks are being repaired: archipel repair shows what else is done",
            table::count(problems, "problem")
        ),
    }
}

#[cfg(test)]
mod tests;
