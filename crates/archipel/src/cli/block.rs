//! `archipel block`

use archipel_api::admin::types::{BlockInfo, BlockNode};
use clap::Subcommand;

use super::progress::waiting;
use super::table::{self, names};
use super::target::Target;
use crate::client::{Failure, path};
use crate::config::size;

/// The subcommands of `archipel block`.
#[derive(Subcommand)]
pub enum Command {
    /// Show the nodes that have a block, and the objects that refer to it. Exit status 1 if the
    /// block is lost
    ///
    /// Each node reads its copy, and the references of all its rows. That takes long on nodes with
    /// many rows.
    Info {
        /// The block's hash: 64 hexadecimal digits
        hash: String,
    },
}

/// Runs a subcommand.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let Command::Info { hash } = command;
    let (client, route) = (target.client()?, path(&["v1", "blocks", &hash]));
    let block: BlockInfo = waiting("asking all nodes", client.get(&route)).await?;
    match target.json {
        true => table::print_json(&block)?,
        false => show(&block)?,
    }
    match block.lost {
        true => Err(Failure::new(format!(
            "no node has a good copy of block {}",
            block.hash
        ))),
        false => Ok(()),
    }
}

fn show(block: &BlockInfo) -> Result<(), Failure> {
    let bytes = block.bytes.map(|bytes| size::show(bytes.into()));
    table::print_pairs(&[
        ("block", block.hash.clone()),
        ("size", bytes.unwrap_or("-".into())),
        ("used by", names(&block.used_by)),
    ])?;
    let rows: Vec<[String; 4]> = block.nodes.iter().map(row).collect();
    table::text("")?;
    table::print(["NODE", "COPY", "REFERENCES", "TROUBLE"], &rows)
}

fn row(node: &BlockNode) -> [String; 4] {
    [
        node.short.clone(),
        node.copy.name().to_owned(),
        node.references.to_string(),
        node.away.clone().unwrap_or("-".into()),
    ]
}
