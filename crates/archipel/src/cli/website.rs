//! `archipel website`

use std::path::PathBuf;

use archipel_api::admin::types::{
    NodeStatus, SetWebsite, WebsiteInfo, WebsiteRedirect, WebsiteRule,
};
use clap::Subcommand;
use serde::Deserialize;

use super::settings::{self, read};
use super::table::{self, done};
use super::target::Target;
use crate::client::{Client, Failure};

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
        /// A file with routing rules, as "show --json" prints them; - for standard input. They
        /// replace the present rules. Other settings in the file are ignored
        #[arg(long, value_name = "FILE")]
        rules: Option<PathBuf>,
    },
    /// Redirect all requests for a bucket's website to another host
    Redirect {
        /// The bucket
        bucket: String,
        /// The host, possibly with a port or a path
        host: String,
        /// The protocol there. Without it, that of the request
        #[arg(long, value_name = "PROTOCOL", value_parser = ["http", "https"])]
        protocol: Option<String>,
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

/// A file with routing rules. Other settings in it are ignored, so that it may be the output of
/// `show --json`.
#[derive(Deserialize)]
struct Rules {
    rules: Vec<WebsiteRule>,
}

/// Runs a subcommand.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let client = target.client()?;
    match command {
        Command::Enable {
            bucket,
            index,
            error,
            rules,
        } => {
            let rules: Option<Rules> = rules.map(|file| read(&file)).transpose()?;
            let set = SetWebsite {
                index: Some(index),
                error,
                rules: rules.map(|file| file.rules),
                redirect: None,
            };
            made(target, &client, &client.put(&route(&bucket), &set).await?).await
        }
        Command::Redirect {
            bucket,
            host,
            protocol,
        } => {
            let set = SetWebsite {
                redirect: Some(WebsiteRedirect { host, protocol }),
                ..SetWebsite::default()
            };
            made(target, &client, &client.put(&route(&bucket), &set).await?).await
        }
        Command::Disable { bucket } => {
            client.delete(&route(&bucket)).await?;
            done(target, &format!("bucket {bucket} is no website any more"))
        }
        Command::Show { bucket } => show(target, &client.get(&route(&bucket)).await?),
    }
}

fn route(bucket: &str) -> String {
    settings::route(bucket, "website")
}

/// Shows a new website, and says if the node serves none.
async fn made(target: &Target, client: &Client, info: &WebsiteInfo) -> Result<(), Failure> {
    show(target, info)?;
    let status: NodeStatus = client.get("/v1/status").await?;
    if target.json || status.web_endpoint.is_some() {
        return Ok(());
    }
    table::document(
        "\nThis node serves no websites. Set web.listen in its configuration and restart it, or use the web \
         address of another node.",
    )
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
    table::print_pairs(&pairs)?;
    if info.rules.is_empty() {
        return Ok(());
    }
    let row = |rule: &WebsiteRule| [applies_to(rule), leads_to(rule)];
    let rows: Vec<_> = info.rules.iter().map(row).collect();
    table::text("")?;
    table::print(["ROUTING RULE FOR", "REDIRECT"], &rows)
}

/// Says to which requests a routing rule applies.
fn applies_to(rule: &WebsiteRule) -> String {
    let prefix = rule.key_prefix.as_deref().unwrap_or_default();
    match rule.error_status {
        None => format!("{prefix}*"),
        Some(status) => format!("{prefix}* with status {status}"),
    }
}

/// Says where a routing rule leads. Three dots stand for what stays as it is in the request.
fn leads_to(rule: &WebsiteRule) -> String {
    let or_dots = |part: &Option<String>| part.clone().unwrap_or("...".into());
    let key = match (&rule.replace_key, &rule.replace_prefix) {
        (Some(key), _) => key.clone(),
        (None, Some(prefix)) => format!("{prefix}*"),
        (None, None) => "...".into(),
    };
    let status = rule.status.unwrap_or(301);
    let (protocol, host) = (or_dots(&rule.protocol), or_dots(&rule.host));
    format!("{status} {protocol}://{host}/{key}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_routing_rule_says_for_what_and_where_to() {
        let all = WebsiteRule {
            host: Some("new.example.org".into()),
            ..WebsiteRule::default()
        };
        assert_eq!(applies_to(&all), "*");
        assert_eq!(leads_to(&all), "301 ...://new.example.org/...");
        let moved = WebsiteRule {
            key_prefix: Some("old/".into()),
            error_status: Some(404),
            status: Some(302),
            replace_prefix: Some("new/".into()),
            ..WebsiteRule::default()
        };
        assert_eq!(applies_to(&moved), "old/* with status 404");
        assert_eq!(leads_to(&moved), "302 ...://.../new/*");
    }
}
