//! `archipel audit`

use archipel_api::admin::types::{AuditLine, Page};
use clap::Args;

use super::table;
use super::target::Target;
use crate::client::{Client, Failure, query};

/// `archipel audit`
#[derive(Args)]
pub struct AuditArgs {
    /// The server.
    #[command(flatten)]
    target: Target,
    /// Show this many of the newest lines, at most 1000 [default: 100]
    #[arg(
        long,
        value_name = "COUNT",
        conflicts_with = "after",
        value_parser = clap::value_parser!(u64).range(1..=1000)
    )]
    last: Option<u64>,
    /// Show all lines after the one with this number that the server still has
    #[arg(long, value_name = "NUMBER")]
    after: Option<u64>,
    /// Show only requests to this endpoint
    #[arg(long, value_name = "ENDPOINT", value_parser = ["s3", "k2v", "web", "admin"])]
    endpoint: Option<String>,
    /// Show only requests of this access key or token
    #[arg(long, value_name = "WHO")]
    who: Option<String>,
    /// Show only requests for this action, such as PutObject, in any case of letters
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,
    /// Show only requests about this bucket
    #[arg(long, value_name = "BUCKET")]
    bucket: Option<String>,
    /// Show only requests with this decision
    #[arg(
        long,
        value_name = "DECISION",
        value_parser = ["allowed", "denied", "refused", "failed"]
    )]
    decision: Option<String>,
}

/// Shows lines of the audit log.
pub async fn run(args: &AuditArgs) -> Result<(), Failure> {
    let lines = lines(&args.target.client()?, args).await?;
    if args.target.json {
        return table::print_json(&lines);
    }
    let rows: Vec<[String; 8]> = lines.into_iter().map(row).collect();
    table::print(
        [
            "NUMBER", "TIME", "AT", "WHO", "ACTION", "ABOUT", "DECISION", "STATUS",
        ],
        &rows,
    )
}

/// Gets the lines that the arguments ask for, page by page.
async fn lines(client: &Client, args: &AuditArgs) -> Result<Vec<AuditLine>, Failure> {
    let last = args.last.map(|count| count.to_string());
    let mut after = args.after.map(|number| number.to_string());
    let mut all = Vec::new();
    loop {
        let route = query(
            "/v1/audit",
            &[
                ("limit", last.as_deref()),
                ("after", after.as_deref()),
                ("endpoint", args.endpoint.as_deref()),
                ("who", args.who.as_deref()),
                ("action", args.action.as_deref()),
                ("bucket", args.bucket.as_deref()),
                ("decision", args.decision.as_deref()),
            ],
        );
        let mut page: Page<AuditLine> = client.get(&route).await?;
        all.append(&mut page.items);
        after = page.next;
        if after.is_none() {
            return Ok(all);
        }
    }
}

fn row(line: AuditLine) -> [String; 8] {
    let about = match (line.bucket, line.key, line.path) {
        (Some(bucket), Some(key), _) => format!("{bucket}/{key}"),
        (Some(bucket), None, _) => bucket,
        (None, _, path) => path.unwrap_or("-".into()),
    };
    let status = match line.code.is_empty() {
        true => line.status.to_string(),
        false => format!("{} {}", line.status, line.code),
    };
    [
        line.number.to_string(),
        line.time,
        line.endpoint,
        line.who.unwrap_or("-".into()),
        line.action,
        about,
        line.decision,
        status,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_the_request_was_about() {
        let of = |bucket: Option<&str>, key: Option<&str>, path: Option<&str>| {
            let line = AuditLine {
                bucket: bucket.map(String::from),
                key: key.map(String::from),
                path: path.map(String::from),
                ..AuditLine::default()
            };
            row(line)[5].clone()
        };
        assert_eq!(of(Some("photos"), Some("a.jpg"), None), "photos/a.jpg");
        assert_eq!(of(Some("photos"), None, Some("/photos")), "photos");
        assert_eq!(of(None, None, Some("/v1/buckets")), "/v1/buckets");
        assert_eq!(of(None, None, None), "-");
    }
}
