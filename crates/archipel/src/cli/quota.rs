//! `archipel bucket quota`

use archipel_api::admin::types::{Quota, QuotaUse};
use clap::{Args, Subcommand};

use super::table;
use super::target::Target;
use crate::client::{Failure, path};
use crate::config::size;

/// The subcommands of `archipel bucket quota`.
#[derive(Subcommand)]
pub enum QuotaCommand {
    /// Show the most that a bucket may hold, and what it holds
    Show {
        /// The bucket
        bucket: String,
    },
    /// Set the most that a bucket may hold. A limit that is not named stays
    Set(SetQuota),
}

/// The arguments of `archipel bucket quota set`.
#[derive(Args)]
pub struct SetQuota {
    /// The bucket
    bucket: String,
    /// The most bytes of content, such as 500GB; none for no limit
    #[arg(long, value_name = "SIZE", value_parser = bytes, required_unless_present = "objects")]
    size: Option<Limit>,
    /// The most objects, each version counted; none for no limit
    #[arg(long, value_name = "N", value_parser = objects)]
    objects: Option<Limit>,
}

/// A limit; `None` for none.
#[derive(Clone, Copy)]
struct Limit(Option<u64>);

fn bytes(text: &str) -> Result<Limit, String> {
    match text {
        "none" => Ok(Limit(None)),
        size => match size::parse(size) {
            Some(bytes) => Ok(Limit(Some(bytes))),
            None => Err("write a size such as 500GB, or none".into()),
        },
    }
}

fn objects(text: &str) -> Result<Limit, String> {
    match text {
        "none" => Ok(Limit(None)),
        number => match number.parse() {
            Ok(number) => Ok(Limit(Some(number))),
            Err(_) => Err("write a number, or none".into()),
        },
    }
}

/// Runs `archipel bucket quota`.
pub async fn run(target: &Target, command: QuotaCommand) -> Result<(), Failure> {
    let client = target.client()?;
    let (bucket, info): (String, QuotaUse) = match command {
        QuotaCommand::Show { bucket } => {
            let route = path(&["v1", "buckets", &bucket, "quota"]);
            let info = client.get(&route).await?;
            (bucket, info)
        }
        QuotaCommand::Set(set) => {
            let route = path(&["v1", "buckets", &set.bucket, "quota"]);
            let before: QuotaUse = client.get(&route).await?;
            let of = |set: Option<Limit>, before| set.map_or(before, |limit| limit.0);
            let quota = Quota {
                bytes: of(set.size, before.quota.bytes),
                objects: of(set.objects, before.quota.objects),
            };
            (set.bucket, client.put(&route, &quota).await?)
        }
    };
    if target.json {
        return table::print_json(&info);
    }
    table::print_pairs(&[
        ("bucket", bucket),
        ("objects", of_objects(info.objects, info.quota.objects)),
        ("size", of_bytes(info.bytes, info.quota.bytes)),
    ])
}

/// Shows a number of objects beside its limit.
pub fn of_objects(used: u64, limit: Option<u64>) -> String {
    beside(used.to_string(), limit.map(|limit| limit.to_string()))
}

/// Shows a size beside its limit.
pub fn of_bytes(used: u64, limit: Option<u64>) -> String {
    beside(size::show(used), limit.map(size::show))
}

fn beside(used: String, limit: Option<String>) -> String {
    match limit {
        Some(limit) => format!("{used} of {limit}"),
        None => used,
    }
}
