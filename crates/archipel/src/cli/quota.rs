//! `archipel bucket quota` and `archipel user quota`

use archipel_api::admin::types::{Quota, QuotaUse};
use clap::{Args, Subcommand};

use super::table;
use super::target::Target;
use crate::client::{Client, Failure, path};
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
    Set {
        /// The bucket
        bucket: String,
        /// The limits.
        #[command(flatten)]
        limits: Limits,
    },
}

/// The subcommands of `archipel user quota`.
#[derive(Subcommand)]
pub enum UserQuotaCommand {
    /// Show the most that the buckets of a user may hold together, and what they hold
    Show {
        /// The user
        user: String,
    },
    /// Set the most that the buckets may hold together which a user created. A limit that is not
    /// named stays
    Set {
        /// The user
        user: String,
        /// The limits.
        #[command(flatten)]
        limits: Limits,
    },
}

/// The limits that a command sets.
#[derive(Args)]
pub struct Limits {
    /// The most bytes of content, such as 500GiB; none for no limit
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
            None => Err("write a size such as 500GiB, or none".into()),
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
    let (bucket, limits) = match command {
        QuotaCommand::Show { bucket } => (bucket, None),
        QuotaCommand::Set { bucket, limits } => (bucket, Some(limits)),
    };
    let route = path(&["v1", "buckets", &bucket, "quota"]);
    let info = show_or_set(&target.client()?, &route, limits).await?;
    print(target, ("bucket", bucket), &info)
}

/// Runs `archipel user quota`.
pub async fn run_of_user(target: &Target, command: UserQuotaCommand) -> Result<(), Failure> {
    let (user, limits) = match command {
        UserQuotaCommand::Show { user } => (user, None),
        UserQuotaCommand::Set { user, limits } => (user, Some(limits)),
    };
    let route = path(&["v1", "users", &user, "quota"]);
    let info = show_or_set(&target.client()?, &route, limits).await?;
    print(target, ("user", user), &info)
}

async fn show_or_set(
    client: &Client,
    route: &str,
    limits: Option<Limits>,
) -> Result<QuotaUse, Failure> {
    let before: QuotaUse = client.get(route).await?;
    let Some(limits) = limits else {
        return Ok(before);
    };
    let of = |set: Option<Limit>, before| set.map_or(before, |limit| limit.0);
    let quota = Quota {
        bytes: of(limits.size, before.quota.bytes),
        objects: of(limits.objects, before.quota.objects),
    };
    client.put(route, &quota).await
}

fn print(target: &Target, name: (&'static str, String), info: &QuotaUse) -> Result<(), Failure> {
    if target.json {
        return table::print_json(info);
    }
    table::print_pairs(&[
        name,
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
