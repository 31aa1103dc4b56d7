//! What a decision costs. The limit is far above what an optimised build needs, so that the test
//! only fails if the cost grows with something that it must not grow with.

use std::time::Instant;

use super::user;
use crate::{Action, Context, Inputs, Policy, Request, decide};

/// Prints the time of a decision over 20 statements, none of which matches.
///
/// `cargo test --release -p archipel-access -- cost --nocapture`
#[test]
#[allow(clippy::disallowed_methods)] // It measures.
fn decision_over_twenty_statements_is_cheap() {
    let statement = |n: usize| {
        format!(
            r#"{{"Sid": "s{n}", "Effect": "Deny", "Principal": "*", "Action": "s3:Get*",
                "Resource": "arn:aws:s3:::bucket/private/{n}/*",
                "Condition": {{"StringLike": {{"aws:Referer": "https://{n}.example.org/*"}},
                               "NotIpAddress": {{"aws:SourceIp": "10.{n}.0.0/16"}}}}}}"#
        )
    };
    let statements: Vec<_> = (0..20).map(statement).collect();
    let text = format!(r#"{{"Statement": [{}]}}"#, statements.join(","));
    let policy = Policy::parse(&text, "bucket").unwrap();
    let mut context = Context::of(user("AK1"));
    context.set("aws:Referer", "https://x.example.org/");
    context.set("aws:SourceIp", "192.0.2.1");
    let request = Request {
        principal: user("AK1"),
        action: Action::GetObject,
        bucket: "bucket",
        key: Some("public/photos/2024/cat.jpg"),
        context: &context,
    };
    let inputs = Inputs {
        policy: Some(&policy),
        ..Inputs::default()
    };
    let rounds = 20_000;
    let begun = Instant::now();
    for _ in 0..rounds {
        assert!(!decide(&request, &inputs).is_allowed());
    }
    let each = begun.elapsed() / rounds;
    println!("{each:?} a decision over 20 statements");
    assert!(each.as_micros() < 500, "{each:?}");
}
