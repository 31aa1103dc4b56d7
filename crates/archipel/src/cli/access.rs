//! `archipel access`

use std::collections::BTreeMap;

use archipel_api::admin::types::{Explain, Explanation};
use clap::Subcommand;

use super::table;
use super::target::Target;
use crate::client::Failure;

/// The subcommands of `archipel access`.
#[derive(Subcommand)]
pub enum Command {
    /// Decide about a request as the server would, and say why
    Explain {
        /// The id of an access key, or "anonymous"
        key: String,
        /// The action, such as s3:GetObject
        action: String,
        /// BUCKET or BUCKET/KEY
        resource: String,
        /// A condition key of the request, such as aws:SourceIp=192.0.2.1; repeatable
        #[arg(long = "with", value_name = "NAME=VALUE", value_parser = pair)]
        with: Vec<(String, String)>,
    },
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Runs a subcommand.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let client = target.client()?;
    let Command::Explain {
        key,
        action,
        resource,
        with,
    } = command;
    let ask = Explain {
        key,
        action,
        resource,
        context: with.into_iter().collect::<BTreeMap<_, _>>(),
    };
    let explanation: Explanation = client.post("/v1/access/explain", &ask).await?;
    if target.json {
        return table::print_json(&explanation);
    }
    let decision = if explanation.allowed {
        "allowed"
    } else {
        "denied"
    };
    table::print_pairs(&[
        ("decision", decision.to_owned()),
        ("reason", explanation.reason),
        ("action", explanation.action),
        ("resource", explanation.resource),
        (
            "principal",
            explanation.principal.unwrap_or_else(|| "anonymous".into()),
        ),
    ])
}
