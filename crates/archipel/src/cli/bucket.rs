//! `archipel bucket`

use archipel_api::admin::types::{BucketInfo, BucketSummary, CreateBucket, Grant};
use clap::Subcommand;

use super::table;
use super::target::Target;
use crate::client::{Failure, path};
use crate::config::size;

/// The subcommands of `archipel bucket`.
#[derive(Subcommand)]
pub enum Command {
    /// Create a bucket
    Create {
        /// Its name by S3's rules: 3 to 63 lower-case letters, digits, hyphens and dots
        name: String,
        /// An access key that gets all permissions
        #[arg(long, value_name = "KEY_ID")]
        owner: Option<String>,
    },
    /// List all buckets
    List,
    /// Show a bucket's contents and the access keys that may use it
    Info {
        /// The bucket
        name: String,
    },
    /// Delete an empty bucket
    Delete {
        /// The bucket
        name: String,
    },
}

/// Runs a subcommand.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let client = target.client()?;
    match command {
        Command::Create { name, owner } => {
            let ask = CreateBucket { name, owner };
            let info: BucketInfo = client.post("/v1/buckets", &ask).await?;
            show(target, &info)
        }
        Command::List => {
            let buckets: Vec<BucketSummary> = client.get("/v1/buckets").await?;
            list(target, &buckets)
        }
        Command::Info { name } => {
            let info: BucketInfo = client.get(&path(&["v1", "buckets", &name])).await?;
            show(target, &info)
        }
        Command::Delete { name } => {
            client.delete(&path(&["v1", "buckets", &name])).await?;
            done(target, &format!("bucket {name} deleted"))
        }
    }
}

/// Prints `text` for people. Programs that asked for JSON see success in the exit status.
pub fn done(target: &Target, text: &str) -> Result<(), Failure> {
    if target.json {
        Ok(())
    } else {
        table::text(text)
    }
}

fn list(target: &Target, buckets: &[BucketSummary]) -> Result<(), Failure> {
    if target.json {
        return table::print_json(&buckets);
    }
    let rows: Vec<[String; 3]> = buckets
        .iter()
        .map(|b| {
            [
                b.name.clone(),
                table::age(b.created_ms),
                b.grants.to_string(),
            ]
        })
        .collect();
    table::print(["BUCKET", "AGE", "GRANTS"], &rows)
}

fn show(target: &Target, info: &BucketInfo) -> Result<(), Failure> {
    if target.json {
        return table::print_json(info);
    }
    table::print_pairs(&[
        ("bucket", info.name.clone()),
        ("id", info.id.clone()),
        ("age", table::age(info.created_ms)),
        ("objects", info.objects.to_string()),
        ("size", size::show(info.bytes)),
    ])?;
    grants(&info.grants)
}

/// Prints a table of grants, if there are any.
pub fn grants(grants: &[Grant]) -> Result<(), Failure> {
    if grants.is_empty() {
        return Ok(());
    }
    let mark = |yes: bool| String::from(if yes { "yes" } else { "-" });
    let rows: Vec<[String; 5]> = grants
        .iter()
        .map(|g| {
            let (bucket, key) = (g.bucket.clone(), g.key.clone());
            [bucket, key, mark(g.read), mark(g.write), mark(g.owner)]
        })
        .collect();
    table::text("")?;
    table::print(["BUCKET", "KEY", "READ", "WRITE", "OWNER"], &rows)
}
