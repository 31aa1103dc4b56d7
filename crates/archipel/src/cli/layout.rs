//! `archipel layout`

use archipel_api::admin::types::{
    Apply, Assign, HistoryInfo, LayoutInfo, LayoutNode, ProgressInfo, Redundancy, RemoveDead,
    RemovedInfo, Stage, StagedInfo, StagedNode,
};
use archipel_base::clock::{SystemClock, WallClock};
use clap::{Args, Subcommand};

use super::node::capacity;
use super::table::{self, done};
use super::target::Target;
use crate::client::{Failure, query};
use crate::config::size;

mod wait;

/// The subcommands of `archipel layout`.
#[derive(Subcommand)]
pub enum Command {
    /// Show the nodes and their parts, the staged change with its effect, and the progress of a
    /// change
    Show,
    /// Stage nodes to join the layout, or a change of their zone or capacity
    Assign(AssignArgs),
    /// Stage the removal of nodes; their data moves to other nodes
    Remove {
        /// Nodes: an id, the first digits of one, or "self"
        #[arg(required = true, value_name = "NODE")]
        nodes: Vec<String>,
    },
    /// Stage the number of copies, and the number of zones that hold them
    Redundancy {
        /// The number of copies of everything, each on a different node
        #[arg(long, value_name = "COUNT")]
        replicas: u8,
        /// The minimum number of zones for the copies. Default: as many as there are
        #[arg(long, value_name = "COUNT")]
        zones: Option<u8>,
    },
    /// Discard the staged change
    Revert,
    /// Make the staged change the layout; data starts to move
    Apply {
        /// The version that `archipel layout show` named. A change staged for another version is
        /// not applied
        #[arg(long, value_name = "VERSION")]
        version: u64,
        /// The revision that `archipel layout show` named. A change that was staged later is not
        /// applied
        #[arg(long, value_name = "REVISION")]
        revision: u64,
        /// Wait until the data has moved. Exit status 1 if something holds it up
        #[arg(long)]
        wait: bool,
    },
    /// Wait until the data has moved to the newest layout version. Exit status 1 if something holds
    /// it up
    Wait,
    /// Stop waiting for a node that is lost for good, so that a layout change can end
    RemoveDead {
        /// The node: its id or the first digits of it. It must not be in the newest layout version
        #[arg(value_name = "NODE")]
        node: String,
        /// Do it. Without this the command only says what would happen
        #[arg(long)]
        yes: bool,
    },
    /// List the epochs after the first, and the layout versions live in each
    History {
        /// List only layouts that began within this time: 30d, 12h
        #[arg(long, value_name = "TIME", value_parser = super::token::seconds)]
        since: Option<u64>,
    },
}

/// `archipel layout assign`
#[derive(Args)]
pub struct AssignArgs {
    /// Nodes: an id, the first digits of one, or "self"
    #[arg(required = true, value_name = "NODE")]
    nodes: Vec<String>,
    /// The site of the nodes; copies go to different zones. Default: unchanged, or the node's own
    /// setting
    #[arg(long)]
    zone: Option<String>,
    /// The capacity of each node, such as 500GiB or 2TB. Default: unchanged, or the node's own
    /// setting
    #[arg(long, value_name = "SIZE", value_parser = storage_size, conflicts_with = "gateway")]
    capacity: Option<u64>,
    /// The nodes hold no data and only forward requests
    #[arg(long)]
    gateway: bool,
}

fn storage_size(text: &str) -> Result<u64, String> {
    match size::parse(text) {
        None => Err("not a size; fix: write for example 500GiB or 2TB".into()),
        Some(0) => Err("the capacity is zero; fix: for a node without data write --gateway".into()),
        Some(bytes) => Ok(bytes),
    }
}

/// Runs a subcommand.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let client = target.client()?;
    let stage = match command {
        Command::Show => return show(target, &client.get("/v1/layout").await?),
        Command::Revert => {
            client.delete("/v1/layout/staged").await?;
            return done(target, "the staged change was discarded");
        }
        Command::Apply {
            version,
            revision,
            wait,
        } => {
            let revision = Some(revision);
            let apply = Apply { version, revision };
            let layout: LayoutInfo = client.post("/v1/layout/apply", &apply).await?;
            return match wait {
                true => wait::moved(target, &client).await,
                false => show(target, &layout),
            };
        }
        Command::Wait => return wait::moved(target, &client).await,
        Command::History { since } => {
            let since_ms = since.map(|seconds| ago_ms(seconds).to_string());
            let filters = [("since_ms", since_ms.as_deref())];
            let route = query("/v1/layout/history", &filters);
            return history(target, &client.list(&route).await?);
        }
        Command::RemoveDead { node, yes } => {
            let ask = RemoveDead { node, confirm: yes };
            return skipped(target, &client.post("/v1/layout/remove-dead", &ask).await?);
        }
        Command::Assign(args) => Stage {
            assign: assignments(args),
            ..Stage::default()
        },
        Command::Remove { nodes } => Stage {
            remove: nodes,
            ..Stage::default()
        },
        Command::Redundancy { replicas, zones } => Stage {
            redundancy: Some(Redundancy { replicas, zones }),
            ..Stage::default()
        },
    };
    let layout: LayoutInfo = client.post("/v1/layout/stage", &stage).await?;
    match (target.json, &layout.staged) {
        (true, _) => table::print_json(&layout),
        (false, Some(staged)) => lines(&staged_lines(staged, &layout)),
        (false, None) => table::text("nothing is staged: the layout already has these values"),
    }
}

fn skipped(target: &Target, skipped: &RemovedInfo) -> Result<(), Failure> {
    if target.json {
        return table::print_json(skipped);
    }
    lines(&skipped.risk)?;
    let short: String = skipped.id.chars().take(8).collect();
    let version = skipped.version;
    if skipped.done {
        table::text(&format!(
            "done: version {version} no longer waits for it; archipel layout show shows the progress of the change"
        ))
    } else {
        table::text(&format!(
            "Nothing was done. To do it:  archipel layout remove-dead {short} --yes"
        ))
    }
}

fn assignments(args: AssignArgs) -> Vec<Assign> {
    let nodes = args.nodes.into_iter();
    nodes
        .map(|node| Assign {
            node,
            zone: args.zone.clone(),
            capacity_bytes: args.capacity.or(args.gateway.then_some(0)),
        })
        .collect()
}

fn show(target: &Target, layout: &LayoutInfo) -> Result<(), Failure> {
    if target.json {
        return table::print_json(layout);
    }
    table::print_pairs(&[
        (
            "layout",
            format!("version {}, epoch {}", layout.version, layout.epoch),
        ),
        ("redundancy", redundancy(layout.redundancy)),
        ("partitions", layout.partitions.to_string()),
    ])?;
    table::text("")?;
    nodes(&layout.nodes)?;
    if let Some(warning) = one_copy(&layout.nodes) {
        table::text("")?;
        table::text(&warning)?;
    }
    if let Some(progress) = &layout.progress {
        table::text("")?;
        lines(&progress_lines(progress))?;
    }
    if let Some(staged) = &layout.staged {
        table::text("")?;
        lines(&staged_lines(staged, layout))?;
    }
    match &layout.staged_unknown {
        Some(why) => {
            table::text("")?;
            table::text(&format!("The staged change cannot be read now: {why}"))
        }
        None => Ok(()),
    }
}

fn nodes(nodes: &[LayoutNode]) -> Result<(), Failure> {
    let rows: Vec<[String; 6]> = nodes
        .iter()
        .map(|node| {
            let control = if node.control { "yes" } else { "-" };
            [
                node.short.clone(),
                node.zone.clone(),
                capacity(node.capacity_bytes),
                node.partitions.to_string(),
                format!("{:.1} %", node.share * 100.0),
                control.into(),
            ]
        })
        .collect();
    table::print(
        ["NODE", "ZONE", "CAPACITY", "PARTITIONS", "SHARE", "CONTROL"],
        &rows,
    )
}

/// Returns a warning if control data has one copy although several nodes hold data.
fn one_copy(nodes: &[LayoutNode]) -> Option<String> {
    let holders = nodes.iter().filter(|node| node.capacity_bytes > 0).count();
    let mut group = nodes.iter().filter(|node| node.control);
    let (Some(only), None, 2..) = (group.next(), group.next(), holders) else {
        return None;
    };
    Some(format!(
        "Buckets, access keys, the keyring and the layout have one copy, on node {}: if its disks are lost, all data is \
         lost; fix: let at least 3 nodes hold data",
        only.short
    ))
}

fn lines(lines: &[String]) -> Result<(), Failure> {
    lines.iter().try_for_each(|line| table::text(line))
}

fn redundancy(redundancy: Redundancy) -> String {
    let copies = match redundancy.replicas {
        1 => "1 copy".to_owned(),
        replicas => format!("{replicas} copies"),
    };
    match redundancy.zones {
        None => format!("{copies}, in as many zones as possible"),
        Some(1) => format!("{copies}, in any zones"),
        Some(zones) => format!("{copies}, in at least {zones} zones"),
    }
}

fn progress_lines(progress: &ProgressInfo) -> Vec<String> {
    let ProgressInfo {
        from_version,
        to_version,
        partitions,
        done,
        rows,
        ..
    } = progress;
    let driver: String = progress.driver.chars().take(8).collect();
    let rows = table::count(*rows, "row");
    let moving = format!(
        "Data moves from version {from_version} to {to_version}: {done} of {partitions} partitions are done, {rows} (driver: node {driver})."
    );
    let trouble = progress
        .trouble
        .as_ref()
        .map(|why| format!("The change is blocked: {why}"));
    let hint = "If it waits for a node that is lost for good: archipel layout remove-dead NODE";
    let hint = trouble.is_some().then(|| hint.to_owned());
    [moving].into_iter().chain(trouble).chain(hint).collect()
}

/// Describes the staged change, its effect, and the command that applies it.
fn staged_lines(staged: &StagedInfo, layout: &LayoutInfo) -> Vec<String> {
    let mut lines = vec![format!("Staged for version {}:", staged.version)];
    lines.extend(
        staged
            .nodes
            .iter()
            .map(|node| format!("  {}", change(node, layout))),
    );
    lines.extend(staged.redundancy.map(|asked| {
        let (before, after) = (redundancy(layout.redundancy), redundancy(asked));
        format!("  redundancy: {after} (now {before})")
    }));
    match &staged.refused {
        Some(why) => lines.push(format!("It cannot be applied: {why}")),
        None => {
            let heading = (!staged.plan.is_empty()).then(|| "Effect:".to_owned());
            lines.extend(heading);
            lines.extend(staged.plan.iter().map(|line| format!("  {line}")));
            lines.push(format!(
                "To apply it:   archipel layout apply --version {} --revision {}",
                staged.version, staged.revision
            ));
        }
    }
    lines.push("To discard it: archipel layout revert".into());
    lines
}

fn change(node: &StagedNode, layout: &LayoutInfo) -> String {
    let before = layout.nodes.iter().find(|before| before.id == node.id);
    let of = |zone: &str, bytes: u64| format!("zone {zone}, {}", capacity(bytes));
    let before = before.map(|before| of(&before.zone, before.capacity_bytes));
    let after = node
        .role
        .as_ref()
        .map(|role| of(&role.zone, role.capacity_bytes));
    let short = &node.short;
    match (before, after) {
        (Some(before), Some(after)) if before == after => {
            format!("= node {short}: {after}, with its current store")
        }
        (Some(before), Some(after)) => format!("~ node {short}: {after} (now {before})"),
        (None, Some(after)) => format!("+ node {short}: {after}"),
        (Some(before), None) => format!("- node {short} ({before})"),
        (None, None) => format!("- node {short}"),
    }
}

/// Returns the time so many seconds ago, in milliseconds since 1970.
fn ago_ms(seconds: u64) -> u64 {
    let now_ms = SystemClock.now_millis();
    now_ms.saturating_sub(seconds.saturating_mul(1000))
}

fn history(target: &Target, entries: &[HistoryInfo]) -> Result<(), Failure> {
    if target.json {
        return table::print_json(&entries);
    }
    if entries.is_empty() {
        return table::text("the layout has never changed");
    }
    let rows: Vec<[String; 3]> = entries
        .iter()
        .map(|entry| {
            let versions: Vec<String> = entry.versions.iter().map(u64::to_string).collect();
            [
                entry.epoch.to_string(),
                versions.join(", "),
                table::age(entry.at_ms),
            ]
        })
        .collect();
    table::print(["EPOCH", "LIVE VERSIONS", "AGE"], &rows)
}

#[cfg(test)]
mod tests;
