//! `archipel certificate`

use archipel_api::admin::types::{CertificateInfo, CertificateState};
use archipel_base::clock::{SystemClock, WallClock};
use clap::Subcommand;

use super::table;
use super::target::Target;
use crate::client::{Failure, query};

/// The subcommands of `archipel certificate`.
#[derive(Subcommand)]
pub enum Command {
    /// List the domains of acme.domains with their certificates, and the orders that failed
    List {
        /// List only certificates in this state
        #[arg(long, value_name = "STATE", value_parser = ["valid", "ended", "missing"])]
        state: Option<String>,
    },
}

/// Runs a subcommand.
pub async fn run(target: &Target, command: Command) -> Result<(), Failure> {
    let Command::List { state } = command;
    let route = query("/v1/certificates", &[("state", state.as_deref())]);
    let all: Vec<CertificateInfo> = target.client()?.list(&route).await?;
    let headings = ["DOMAIN", "STATE", "VALID UNTIL", "TROUBLE"];
    table::list(target, headings, &all, row)
}

fn row(one: &CertificateInfo) -> [String; 4] {
    let state = match one.state {
        CertificateState::Valid => "valid",
        CertificateState::Ended => "ended",
        CertificateState::Missing => "missing",
    };
    let until = match one.not_after_ms {
        None => "-".into(),
        Some(end) if end <= SystemClock.now_millis() => format!("{} ago", table::age(end)),
        Some(end) => format!("in {}", table::until(end)),
    };
    [one.domain.clone(), state.into(), until, trouble(one)]
}

/// Says what is wrong with a certificate or its orders.
fn trouble(one: &CertificateInfo) -> String {
    let order = one.failure.as_ref().map(|why| {
        let next = match one.next_order_ms {
            None => String::new(),
            Some(time) => format!("; the next order begins in {}", table::until(time)),
        };
        format!("{} orders failed: {why}{next}", one.failed_orders)
    });
    let all: Vec<String> = one.trouble.iter().cloned().chain(order).collect();
    match all.is_empty() {
        true => "-".into(),
        false => all.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_says_what_is_wrong() {
        let good = CertificateInfo {
            domain: "s3.example.org".into(),
            state: CertificateState::Missing,
            not_after_ms: None,
            failure: None,
            failed_orders: 0,
            next_order_ms: None,
            trouble: None,
        };
        assert_eq!(row(&good), ["s3.example.org", "missing", "-", "-"]);
        let bad = CertificateInfo {
            state: CertificateState::Ended,
            not_after_ms: Some(0),
            failure: Some("no route".into()),
            failed_orders: 2,
            trouble: Some("cannot be read".into()),
            ..good
        };
        let row = row(&bad);
        assert!(row[2].ends_with(" days ago"), "{row:?}");
        assert_eq!(row[3], "cannot be read; 2 orders failed: no route");
    }
}
