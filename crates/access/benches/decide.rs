//! The cost of a decision: with the statements of a policy, none of which matches, with those of a
//! user and a session together with it, and with a policy and a key that are made to cost much.
//! `cargo bench -p archipel-access --bench decide`

use std::sync::Arc;
use std::time::{Duration, Instant};

use archipel_access::{Action, Context, Identity, Inputs, Policy, Principal, Request, decide};

/// The limit for 20 statements.
const LIMIT: Duration = Duration::from_micros(5);

const ROUNDS: u32 = 20_000;
/// Rounds of a decision that is made to cost much.
const FEW_ROUNDS: u32 = 20;

const KEY: &str = "public/photos/2024/cat.jpg";
const REPEATS: usize = 9;

fn statements(count: usize, principal: &str) -> String {
    let statement = |n: usize| {
        format!(
            r#"{{"Sid": "s{n}", "Effect": "Deny", {principal} "Action": "s3:Get*",
                "Resource": "arn:aws:s3:::bucket/private/{n}/*",
                "Condition": {{"StringLike": {{"aws:Referer": "https://{n}.example.org/*"}},
                               "NotIpAddress": {{"aws:SourceIp": "10.{n}.0.0/16"}}}}}}"#
        )
    };
    let statements: Vec<_> = (0..count).map(statement).collect();
    format!(
        r#"{{"Version": "2012-10-17", "Statement": [{}]}}"#,
        statements.join(",")
    )
}

/// Returns a policy whose patterns nearly match everywhere in a key of one letter.
fn costly() -> String {
    let letters = "a".repeat(490);
    let resource = |n: usize| format!(r#""arn:aws:s3:::bucket/*{letters}{n}b*""#);
    let resources: Vec<_> = (10..46).map(resource).collect();
    format!(
        r#"{{"Version": "2012-10-17", "Statement": [{{"Effect": "Allow", "Principal": "*",
            "Action": "s3:GetObject", "Resource": [{}]}}]}}"#,
        resources.join(",")
    )
}

/// Returns the median time of a decision.
#[allow(clippy::disallowed_methods)] // It measures.
fn time(inputs: &Inputs<'_>, key: &str, rounds: u32) -> Duration {
    let principal = Principal::of_key("AK1");
    let mut context = Context::of(principal);
    context.set("aws:Referer", "https://x.example.org/");
    context.set("aws:SourceIp", "192.0.2.1");
    let request = Request {
        principal,
        action: Action::GetObject,
        bucket: "bucket",
        key: Some(key),
        context: &context,
    };
    let mut times: Vec<Duration> = (0..REPEATS)
        .map(|_| {
            let begun = Instant::now();
            for _ in 0..rounds {
                assert!(!decide(std::hint::black_box(&request), inputs).is_allowed());
            }
            begun.elapsed() / rounds
        })
        .collect();
    times.sort_unstable();
    times[REPEATS / 2]
}

fn main() {
    let mut of_twenty = Duration::ZERO;
    for count in [1, 20, 60] {
        let text = statements(count, r#""Principal": "*","#);
        let policy = Policy::parse(&text, "bucket").expect("a policy of this bench is right");
        let inputs = Inputs {
            policy: Some(&policy),
            ..Inputs::default()
        };
        let each = time(&inputs, KEY, ROUNDS);
        println!("{count:3} statements of the bucket's policy: {each:?}");
        if count == 20 {
            of_twenty = each;
        }
    }
    let text = statements(20, r#""Principal": "*","#);
    let policy = Policy::parse(&text, "bucket").expect("a policy of this bench is right");
    let own = Policy::parse_identity(&statements(20, "")).expect("a policy of this bench is right");
    let own = vec![("own".to_owned(), Arc::new(own))];
    let identity = Identity {
        session: Some(own.clone()),
        policies: own,
    };
    let inputs = Inputs {
        policy: Some(&policy),
        identity: Some(&identity),
        ..Inputs::default()
    };
    println!(
        " 20 statements each of bucket, user and session: {:?}",
        time(&inputs, KEY, ROUNDS)
    );
    let policy = Policy::parse(&costly(), "bucket").expect("a policy of this bench is right");
    let inputs = Inputs {
        policy: Some(&policy),
        ..Inputs::default()
    };
    let each = time(&inputs, &"a".repeat(1000), FEW_ROUNDS);
    println!(" the costliest patterns and key: {each:?}");
    assert!(of_twenty < LIMIT, "{of_twenty:?} is not below {LIMIT:?}");
}
