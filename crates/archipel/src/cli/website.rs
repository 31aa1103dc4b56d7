//! `archipel website`

use archipel_api::admin::types::{SetWebsite, WebsiteInfo};
use clap::Subcommand;

use super::bucket::done;
use super::table;
use super::target::Target;
use crate::client::{Failure, path};

/// The subcommands of `archipel website`.
#[derive(Subcommand)]
pub enum Command {
    /// Make a bucket a website: everybody may read its objects, at the web address only
    Enable {
        /// The bucket
        bucket: String,
        /// The page of a folder
        #[arg(long, default_value = "index.html", value_name = "NAME")]
        index: String,
        /// The key of the page that is shown instead of errors
        #[arg(long, value_name = "KEY")]
        error: Option<String>,
    },
    /// End a bucket's website. Its objects stay
    Disable {
        /// The bucket
        bucket: String,
    },
    /// Show a bucket's website
    Show {
        /// The bucket
        bucket: String,
    },
}

/// Runs a subcommand.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let client = target.client()?;
    match command {
        Command::Enable {
            bucket,
            index,
            error,
        } => {
            let set = SetWebsite {
                index: Some(index),
                error,
                ..SetWebsite::default()
            };
            show(target, &client.put(&route(&bucket), &set).await?)
        }
        Command::Disable { bucket } => {
            client.delete(&route(&bucket)).await?;
            done(target, &format!("bucket {bucket} is no website any more"))
        }
        Command::Show { bucket } => show(target, &client.get(&route(&bucket)).await?),
    }
}

fn route(bucket: &str) -> String {
    path(&["v1", "buckets", bucket, "website"])
}

fn show(target: &Target, info: &WebsiteInfo) -> Result<(), Failure> {
    if target.json {
        return table::print_json(info);
    }
    let mut pairs = vec![("website", info.bucket.clone())];
    let redirect = info.redirect.as_ref().map(|all| match &all.protocol {
        Some(protocol) => format!("{protocol}://{}", all.host),
        None => all.host.clone(),
    });
    let optional = [
        ("redirects to", &redirect),
        ("index", &info.index),
        ("error page", &info.error),
    ];
    for (name, value) in optional {
        pairs.extend(value.clone().map(|value| (name, value)));
    }
    if !info.rules.is_empty() {
        pairs.push(("routing rules", info.rules.len().to_string()));
    }
    table::print_pairs(&pairs)
}
