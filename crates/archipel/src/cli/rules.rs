//! `archipel bucket notifications` and `cors`: rules of a bucket.

use std::path::PathBuf;

use archipel_api::admin::types::{BucketCors, BucketNotifications, CorsRule, NotificationRule};
use clap::Subcommand;

use super::settings::{read, route};
use super::table::{self, done, names};
use super::target::Target;
use crate::client::{Failure, query};

/// The subcommands of `archipel bucket notifications`.
#[derive(Subcommand)]
pub enum NotificationsCommand {
    /// Show the event notifications of a bucket
    Show {
        /// The bucket
        bucket: String,
    },
    /// Replace the rules by those of a file, as "show --json" prints them
    ///
    /// Each target must first accept a test message. The rules count for every write that begins
    /// after the answer.
    Set {
        /// The bucket
        bucket: String,
        /// The file; - for standard input
        file: PathBuf,
        /// Send no test message to the targets
        #[arg(long)]
        skip_test: bool,
    },
    /// Delete all rules. Events that wait are still delivered
    Delete {
        /// The bucket
        bucket: String,
    },
}

/// The subcommands of `archipel bucket cors`.
#[derive(Subcommand)]
pub enum CorsCommand {
    /// Show the CORS rules of a bucket
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
    /// Delete all rules: scripts from other sites have no access
    Delete {
        /// The bucket
        bucket: String,
    },
}

/// Runs `archipel bucket notifications`.
pub async fn notifications(target: &Target, command: NotificationsCommand) -> Result<(), Failure> {
    let client = target.client()?;
    let of = |bucket: &str| route(bucket, "notifications");
    let info: BucketNotifications = match command {
        NotificationsCommand::Show { bucket } => client.get(&of(&bucket)).await?,
        NotificationsCommand::Set {
            bucket,
            file,
            skip_test,
        } => {
            let rules: BucketNotifications = read(&file)?;
            let skip = skip_test.then_some("true");
            let route = query(&of(&bucket), &[("skip_test", skip)]);
            client.put(&route, &rules).await?
        }
        NotificationsCommand::Delete { bucket } => {
            client.delete(&of(&bucket)).await?;
            return done(
                target,
                &format!("bucket {bucket} notifies no target any more"),
            );
        }
    };
    if target.json {
        return table::print_json(&info);
    }
    let row = |rule: &NotificationRule| {
        let (id, to) = (rule.id.clone(), rule.target.clone());
        [id, to, rule.events.join(", "), keys(rule)]
    };
    let rows: Vec<_> = info.rules.iter().map(row).collect();
    table::print(["RULE", "TARGET", "EVENTS", "KEYS"], &rows)
}

/// Says which keys a rule is for.
fn keys(rule: &NotificationRule) -> String {
    match (&rule.prefix, &rule.suffix) {
        (None, None) => "all".into(),
        (prefix, suffix) => {
            let part = |part: &Option<String>| part.clone().unwrap_or_default();
            format!("{}*{}", part(prefix), part(suffix))
        }
    }
}

/// Runs `archipel bucket cors`.
pub async fn cors(target: &Target, command: CorsCommand) -> Result<(), Failure> {
    let client = target.client()?;
    let of = |bucket: &str| route(bucket, "cors");
    let info: BucketCors = match command {
        CorsCommand::Show { bucket } => client.get(&of(&bucket)).await?,
        CorsCommand::Set { bucket, file } => {
            let rules: BucketCors = read(&file)?;
            client.put(&of(&bucket), &rules).await?
        }
        CorsCommand::Delete { bucket } => {
            client.delete(&of(&bucket)).await?;
            return done(
                target,
                &format!("bucket {bucket} has no CORS rules any more"),
            );
        }
    };
    if target.json {
        return table::print_json(&info);
    }
    let row = |rule: &CorsRule| {
        let remembered = rule.max_age_seconds;
        [
            rule.id.clone().unwrap_or("-".into()),
            names(&rule.origins),
            names(&rule.methods),
            names(&rule.headers),
            names(&rule.expose_headers),
            remembered.map_or("-".into(), |seconds| table::span(seconds.into())),
        ]
    };
    let rows: Vec<_> = info.rules.iter().map(row).collect();
    table::print(
        [
            "RULE",
            "SITES",
            "METHODS",
            "HEADERS",
            "READABLE HEADERS",
            "REMEMBERED",
        ],
        &rows,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_says_which_keys_it_is_for() {
        let of = |prefix: Option<&str>, suffix: Option<&str>| NotificationRule {
            id: "a".into(),
            target: "hook".into(),
            events: Vec::new(),
            prefix: prefix.map(String::from),
            suffix: suffix.map(String::from),
            style: Default::default(),
        };
        assert_eq!(keys(&of(None, None)), "all");
        assert_eq!(keys(&of(Some("in/"), None)), "in/*");
        assert_eq!(keys(&of(Some("in/"), Some(".jpg"))), "in/*.jpg");
    }
}
