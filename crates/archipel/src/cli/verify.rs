//! `archipel verify`

use std::process::ExitCode;

use archipel_api::admin::types::{StartVerify, VerifyInfo, VerifyNode};
use clap::Args;

use super::progress::{LOOK, Progress, bar};
use super::table;
use super::target::Target;
use crate::client::{Client, Failure};

/// `archipel verify`
#[derive(Args)]
pub struct VerifyArgs {
    /// Read every block, too, and compare it with its name
    #[arg(long)]
    deep: bool,
    /// The server.
    #[command(flatten)]
    target: Target,
}

/// The exit status if something could not be checked.
const UNCHECKED: u8 = 2;

/// Verifies the cluster. The status is 0 if everything is as it should be, 1 if something is not, 2 if something could not be
/// checked.
pub fn exit(result: Result<ExitCode, Failure>) -> ExitCode {
    result.unwrap_or_else(|failure| {
        eprintln_quietly(&format!("error: {failure}"));
        ExitCode::from(UNCHECKED)
    })
}

fn eprintln_quietly(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Does it.
pub async fn run(args: VerifyArgs) -> Result<ExitCode, Failure> {
    let client = args.target.client()?;
    let info = follow(&client, args.deep).await?;
    match args.target.json {
        true => table::print_json(&info)?,
        false => show(&info)?,
    }
    Ok(ExitCode::from(code(&info)))
}

/// The exit status that a result comes to.
fn code(info: &VerifyInfo) -> u8 {
    match (info.problems(), info.unchecked().is_empty()) {
        (0, true) => 0,
        (0, false) => UNCHECKED,
        _ => 1,
    }
}

async fn follow(client: &Client, deep: bool) -> Result<VerifyInfo, Failure> {
    let begun = client.post("/v1/verify", &StartVerify { deep }).await;
    let mut info: VerifyInfo = match begun {
        Ok(info) => info,
        // One that is under way already is followed.
        Err(failure) => match client.get::<VerifyInfo>("/v1/verify").await {
            Ok(info) if info.began_ms > 0 && info.ended_ms == 0 && info.deep >= deep => info,
            _ => return Err(failure),
        },
    };
    let mut progress = Progress::new();
    while info.ended_ms == 0 {
        progress.show(&line(&info));
        tokio::time::sleep(LOOK).await;
        info = client.get("/v1/verify").await?;
        if info.began_ms == 0 {
            progress.end();
            return Err(Failure("the server was started again meanwhile".into()));
        }
    }
    progress.end();
    Ok(info)
}

/// All nodes in a line.
fn line(info: &VerifyInfo) -> String {
    let each = info.nodes.iter().map(|node| match (node.ended, node.all) {
        (true, _) => format!("{} done", node.short),
        (false, 0) => format!("{} begins", node.short),
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
    let depth = match info.deep {
        true => "every row and block was read",
        false => "every row was read; --deep reads blocks, too",
    };
    match (info.problems(), info.unchecked().len()) {
        (0, 0) => format!("all is whole: {depth}, and replicas are equal"),
        (0, unchecked) => {
            format!("nothing wrong was found, but {unchecked} things could not be checked")
        }
        (problems, _) => format!(
            "{problems} things are wrong; damaged blocks are being mended: archipel repair tells what else is done"
        ),
    }
}

#[cfg(test)]
mod tests;
