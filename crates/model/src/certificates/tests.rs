use std::time::Duration;

use archipel_base::Id;
use archipel_cluster::Cluster;

use super::{Challenge, DomainName, DomainRow, FIRST_WAIT_MS, Issued, NewCertificate};
use crate::cipher::sealed::Sealed;
use crate::{Error, HOOKS, Model, RingSecrets};

const DIRECTORY: &str = "https://authority.example/directory";
const DOMAIN: &str = "s3.example.org";
const NAME: DomainName<'_> = DomainName {
    domain: DOMAIN,
    directory: DIRECTORY,
};
const TIME: Duration = Duration::from_secs(600);

fn with_secret(model: &Model, secret: &str) {
    model.set_ring_secrets(RingSecrets {
        present: vec![secret.as_bytes().to_vec()],
        earlier: Vec::new(),
    });
}

async fn model() -> Model {
    let cluster = Cluster::in_memory(1, HOOKS).await.unwrap();
    let model = Model::open(cluster).await.unwrap();
    with_secret(&model, "one");
    model
}

/// Another process on the same rows.
async fn another(model: &Model, secret: &str) -> Model {
    let model = Model::open(model.cluster().clone()).await.unwrap();
    with_secret(&model, secret);
    model
}

async fn begin(model: &Model) -> Option<Id> {
    model.begin_order(NAME, TIME).await.unwrap()
}

fn certificate(now_ms: u64) -> NewCertificate {
    NewCertificate {
        chain: "chain".into(),
        key: "key".into(),
        not_before_ms: now_ms,
        not_after_ms: now_ms + 90_000,
    }
}

#[test]
fn certificate_is_renewed_when_a_third_of_its_time_is_left() {
    let issued = Issued {
        ordered_ms: 1000,
        chain: String::new(),
        key: Sealed {
            by: Id([0; 16]),
            bytes: bytes::Bytes::new(),
        },
        not_before_ms: 1000,
        not_after_ms: 901_000,
    };
    let row = DomainRow {
        issued: Some(issued),
        ..DomainRow::default()
    };
    assert!(!row.is_due(600_999));
    assert!(row.is_due(601_000));
    assert!(DomainRow::default().is_due(0));
}

#[tokio::test]
async fn one_order_runs_at_a_time_and_its_certificate_is_for_all() {
    let first = model().await;
    let second = another(&first, "one").await;
    let order = begin(&first).await.unwrap();
    assert_eq!(begin(&second).await, None);
    let challenge = Challenge {
        token: "token".into(),
        answer: "answer".into(),
    };
    assert!(first.show_challenge(NAME, order, &challenge).await.unwrap());
    let row = second.certificate_of(NAME).await.unwrap();
    assert_eq!(row.challenge, Some(challenge));
    let new = certificate(first.now_ms());
    assert!(first.end_order(NAME, order, &new).await.unwrap());
    let row = second.certificate_of(NAME).await.unwrap();
    assert_eq!((row.challenge, row.work), (None, None));
    let issued = row.issued.unwrap();
    assert_eq!(issued.chain, "chain");
    assert_eq!(
        second.certificate_key(DOMAIN, &issued).await.unwrap(),
        "key"
    );
    assert_eq!(begin(&second).await, None);
    // Another authority has a row of its own.
    let elsewhere = DomainName {
        directory: "https://other.example",
        ..NAME
    };
    assert!(second.begin_order(elsewhere, TIME).await.unwrap().is_some());
    assert_eq!(
        first.certificate_of(NAME).await.unwrap().issued,
        Some(issued.clone())
    );
    // It is sealed for this domain, and by the ring.
    assert!(
        second
            .certificate_key("other.example", &issued)
            .await
            .is_err()
    );
    let stranger = another(&first, "two").await;
    let refused = stranger.certificate_key(DOMAIN, &issued).await;
    assert!(matches!(refused, Err(Error::NoMasterKey(_))), "{refused:?}");
    assert!(!format!("{issued:?}").contains("\"key\""));
}

#[tokio::test]
async fn order_that_took_too_long_changes_nothing() {
    let model = model().await;
    let late = model.begin_order(NAME, Duration::ZERO).await;
    let late = late.unwrap().unwrap();
    let order = begin(&model).await.unwrap();
    let challenge = Challenge {
        token: "late".into(),
        answer: "late".into(),
    };
    assert!(!model.show_challenge(NAME, late, &challenge).await.unwrap());
    let new = certificate(model.now_ms());
    assert!(!model.end_order(NAME, late, &new).await.unwrap());
    assert!(!model.give_up_order(NAME, late, "late").await.unwrap());
    let row = model.certificate_of(NAME).await.unwrap();
    assert_eq!(row.work.map(|work| work.id), Some(order));
    assert_eq!((row.challenge, row.issued, row.failure), (None, None, None));
}

#[tokio::test]
async fn next_order_waits_longer_after_each_failure() {
    let model = model().await;
    let order = begin(&model).await.unwrap();
    let before = model.now_ms();
    let long = "why ".repeat(1000);
    assert!(model.give_up_order(NAME, order, &long).await.unwrap());
    let row = model.certificate_of(NAME).await.unwrap();
    let failure = row.failure.clone().unwrap();
    assert!(failure.times == 1 && failure.next_ms >= before + FIRST_WAIT_MS);
    assert!(failure.why.len() < 200);
    assert!(!row.is_due(before));
    assert!(row.is_due(failure.next_ms));
    // A time noted by a clock that is far ahead does not count.
    assert!(row.is_due(failure.next_ms - 3 * 3600 * 1000));
    assert_eq!(begin(&model).await, None);
}

#[tokio::test]
async fn account_is_sealed_and_replaced() {
    let model = model().await;
    assert_eq!(model.authority_account(DIRECTORY).await.unwrap(), None);
    for credentials in ["first", "second"] {
        let kept = model.keep_authority_account(DIRECTORY, credentials).await;
        kept.unwrap();
    }
    let found = model.authority_account(DIRECTORY).await.unwrap();
    assert_eq!(found.as_deref(), Some("second"));
    assert_eq!(model.authority_account("other").await.unwrap(), None);
}
