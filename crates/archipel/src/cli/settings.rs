//! `archipel bucket versioning`, `lock`, `tag` and `lifecycle`: the settings of a bucket.

use std::path::{Path, PathBuf};

use archipel_api::admin::types::{
    BucketLifecycle, BucketLockInfo, BucketRule, BucketTags, BucketVersioning, LockMode, NameValue,
    VersioningState,
};
use clap::{Args, Subcommand, ValueEnum};
use serde::de::DeserializeOwned;

use super::policy;
use super::table::{self, done};
use super::target::Target;
use crate::client::{Failure, path};
use crate::config::size;

/// The subcommands of `archipel bucket versioning`.
#[derive(Subcommand)]
pub enum VersioningCommand {
    /// Show whether a bucket keeps versions
    Show {
        /// The bucket
        bucket: String,
    },
    /// Keep what writes and deletions replace, from now on
    Enable {
        /// The bucket
        bucket: String,
    },
    /// Keep no more versions. Those that are there stay
    Suspend {
        /// The bucket
        bucket: String,
    },
}

/// The subcommands of `archipel bucket lock`.
#[derive(Subcommand)]
pub enum LockCommand {
    /// Show whether versions can be protected, and the retention that new ones get
    Show {
        /// The bucket
        bucket: String,
    },
    /// Allow to protect versions, for good, and set the retention that new ones get
    Set(SetLock),
}

/// The arguments of `archipel bucket lock set`.
#[derive(Args)]
pub struct SetLock {
    /// A bucket that keeps versions
    bucket: String,
    /// The protection of new versions. Without it, they get no retention
    #[arg(long, requires = "period")]
    mode: Option<Mode>,
    /// For so many days
    #[arg(long, value_name = "N", requires = "mode", group = "period")]
    days: Option<u32>,
    /// For so many years of 365 days
    #[arg(long, value_name = "N", requires = "mode", group = "period")]
    years: Option<u32>,
}

/// The strictness of a retention.
#[derive(Clone, Copy, ValueEnum)]
pub enum Mode {
    /// Those with the permission may bypass it
    Governance,
    /// Nobody may bypass, shorten or remove it
    Compliance,
}

/// The subcommands of `archipel bucket tag`.
#[derive(Subcommand)]
pub enum TagCommand {
    /// List the tags of a bucket
    List {
        /// The bucket
        bucket: String,
    },
    /// Replace the tags of a bucket. Without tags, remove all
    Set {
        /// The bucket
        bucket: String,
        /// The tags
        #[arg(value_name = "NAME=VALUE", value_parser = tag)]
        tags: Vec<NameValue>,
    },
}

/// The subcommands of `archipel bucket lifecycle`.
#[derive(Subcommand)]
pub enum LifecycleCommand {
    /// Show the rules that make objects, versions and uploads expire
    Show {
        /// The bucket
        bucket: String,
    },
    /// Replace the rules by those of a file, as "show --json" prints them
    Set {
        /// The bucket
        bucket: String,
        /// The file; - for standard input
        file: PathBuf,
    },
    /// Delete all rules
    Delete {
        /// The bucket
        bucket: String,
    },
}

fn tag(text: &str) -> Result<NameValue, String> {
    let (name, value) = text.split_once('=').ok_or("a tag is NAME=VALUE")?;
    Ok(NameValue {
        name: name.into(),
        value: value.into(),
    })
}

/// Returns the address of a setting of a bucket.
pub fn route(bucket: &str, setting: &str) -> String {
    path(&["v1", "buckets", bucket, setting])
}

/// Runs `archipel bucket versioning`.
pub async fn versioning(target: &Target, command: VersioningCommand) -> Result<(), Failure> {
    let client = target.client()?;
    let (bucket, state) = match command {
        VersioningCommand::Show { bucket } => (bucket, None),
        VersioningCommand::Enable { bucket } => (bucket, Some(VersioningState::Enabled)),
        VersioningCommand::Suspend { bucket } => (bucket, Some(VersioningState::Suspended)),
    };
    let route = route(&bucket, "versioning");
    let info: BucketVersioning = match state {
        None => client.get(&route).await?,
        Some(state) => client.put(&route, &BucketVersioning { state }).await?,
    };
    if target.json {
        return table::print_json(&info);
    }
    let state = match info.state {
        VersioningState::Never => "never enabled",
        VersioningState::Enabled => "enabled",
        VersioningState::Suspended => "suspended: the versions that are there stay",
    };
    table::print_pairs(&[("bucket", bucket), ("versioning", state.into())])
}

/// Runs `archipel bucket lock`.
pub async fn lock(target: &Target, command: LockCommand) -> Result<(), Failure> {
    let client = target.client()?;
    let (bucket, info): (String, BucketLockInfo) = match command {
        LockCommand::Show { bucket } => {
            let info = client.get(&route(&bucket, "lock")).await?;
            (bucket, info)
        }
        LockCommand::Set(set) => {
            let ask = BucketLockInfo {
                enabled: true,
                mode: set.mode.map(|mode| match mode {
                    Mode::Governance => LockMode::Governance,
                    Mode::Compliance => LockMode::Compliance,
                }),
                days: set.days,
                years: set.years,
            };
            let info = client.put(&route(&set.bucket, "lock"), &ask).await?;
            (set.bucket, info)
        }
    };
    if target.json {
        return table::print_json(&info);
    }
    let mode = info.mode.map(|mode| match mode {
        LockMode::Governance => "governance",
        LockMode::Compliance => "compliance",
    });
    let period = match (info.days, info.years) {
        (Some(days), _) => table::count(days.into(), "day"),
        (_, Some(years)) => table::count(years.into(), "year"),
        _ => String::new(),
    };
    let default = mode.map_or("none".into(), |mode| format!("{mode}, {period}"));
    table::print_pairs(&[
        ("bucket", bucket),
        (
            "object lock",
            if info.enabled { "on" } else { "off" }.into(),
        ),
        ("retention of new versions", default),
    ])
}

/// Runs `archipel bucket tag`.
pub async fn tags(target: &Target, command: TagCommand) -> Result<(), Failure> {
    let client = target.client()?;
    let info: BucketTags = match command {
        TagCommand::List { bucket } => client.get(&route(&bucket, "tags")).await?,
        TagCommand::Set { bucket, tags } => {
            let route = route(&bucket, "tags");
            client.put(&route, &BucketTags { tags }).await?
        }
    };
    if target.json {
        return table::print_json(&info);
    }
    let row = |tag: &NameValue| [tag.name.clone(), tag.value.clone()];
    let rows: Vec<_> = info.tags.iter().map(row).collect();
    table::print(["TAG", "VALUE"], &rows)
}

/// Runs `archipel bucket lifecycle`.
pub async fn lifecycle(target: &Target, command: LifecycleCommand) -> Result<(), Failure> {
    let client = target.client()?;
    let info: BucketLifecycle = match command {
        LifecycleCommand::Show { bucket } => client.get(&route(&bucket, "lifecycle")).await?,
        LifecycleCommand::Set { bucket, file } => {
            let rules: BucketLifecycle = read(&file)?;
            client.put(&route(&bucket, "lifecycle"), &rules).await?
        }
        LifecycleCommand::Delete { bucket } => {
            client.delete(&route(&bucket, "lifecycle")).await?;
            return done(target, &format!("bucket {bucket} has no rules any more"));
        }
    };
    if target.json {
        return table::print_json(&info);
    }
    let row = |rule: &BucketRule| {
        let state = if rule.disabled { "off" } else { "on" };
        [
            rule.id.clone(),
            state.into(),
            applies_to(rule),
            effects(rule),
        ]
    };
    let rows: Vec<_> = info.rules.iter().map(row).collect();
    table::print(["RULE", "STATE", "OBJECTS", "EFFECT"], &rows)
}

/// Reads JSON from a file, or from standard input if it is `-`.
pub fn read<T: DeserializeOwned>(file: &Path) -> Result<T, Failure> {
    let text = policy::read(file)?;
    serde_json::from_str(&text)
        .map_err(|error| Failure::new(format!("{}: {error}", file.display())))
}

/// Says which objects a rule is for.
fn applies_to(rule: &BucketRule) -> String {
    let prefix = rule.prefix.as_ref().filter(|prefix| !prefix.is_empty());
    let mut all: Vec<String> = prefix
        .map(|prefix| format!("{prefix}*"))
        .into_iter()
        .collect();
    let tags = rule.tags.iter();
    all.extend(tags.map(|tag| format!("{}={}", tag.name, tag.value)));
    all.extend(
        rule.larger_than
            .map(|bytes| format!("> {}", size::show(bytes))),
    );
    all.extend(
        rule.smaller_than
            .map(|bytes| format!("< {}", size::show(bytes))),
    );
    match all.is_empty() {
        true => "all".into(),
        false => all.join(", "),
    }
}

/// Says what a rule does.
fn effects(rule: &BucketRule) -> String {
    let mut all = Vec::new();
    all.extend(
        rule.expire_days
            .map(|days| format!("expire after {days} d")),
    );
    let date = rule.expire_at_ms;
    all.extend(date.map(|at_ms| format!("expire in {}", table::until(at_ms))));
    let markers = rule.expire_markers.filter(|on| *on);
    all.extend(markers.map(|_| "remove lone delete markers".into()));
    all.extend(rule.noncurrent_days.map(|days| {
        let keep = rule.noncurrent_keep.map(|keep| format!(" but {keep}"));
        format!("remove versions{} after {days} d", keep.unwrap_or_default())
    }));
    all.extend(
        rule.abort_days
            .map(|days| format!("abort uploads after {days} d")),
    );
    all.join(", ")
}
