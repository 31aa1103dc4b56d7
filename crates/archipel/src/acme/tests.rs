//! Copies of certificates, the time that they are valid, and what operators are told.

use std::sync::Arc;
use std::time::Duration;

use archipel_api::serve::tls::Tls;
use archipel_base::clock::SystemClock;
use archipel_cluster::Cluster;
use archipel_model::certificates::{Challenge, DomainName, NewCertificate};
use archipel_model::{HOOKS, Model, RingSecrets};
use rcgen::{CertificateParams, KeyPair};

use super::{Acme, files};
use crate::config;
use crate::config::certificates::validity;

const DOMAIN: &str = "s3.example.org";
const OTHER_DOMAIN: &str = "web.example.org";

/// A certificate and its key, valid from 2026-01-01 until 2026-03-31.
fn made() -> (String, String) {
    let mut params = CertificateParams::new([DOMAIN.to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2026, 1, 1);
    params.not_after = rcgen::date_time_ymd(2026, 3, 31);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

async fn model() -> Model {
    let cluster = Cluster::in_memory(1, HOOKS).await.unwrap();
    let model = Model::open(cluster).await.unwrap();
    model.set_ring_secrets(RingSecrets {
        present: vec![b"secret".to_vec()],
        earlier: Vec::new(),
    });
    model
}

fn settings() -> config::Acme {
    config::Acme {
        domains: vec![DOMAIN.into(), OTHER_DOMAIN.into()],
        contact: None,
        // Nobody listens at port 1.
        directory: "https://127.0.0.1:1/directory".into(),
        ca_file: None,
        challenge: config::Challenge::TlsAlpn,
        listen: None,
    }
}

fn acme(folder: &std::path::Path, model: &Model) -> Acme {
    acme_with(settings(), folder, model)
}

fn acme_with(settings: config::Acme, folder: &std::path::Path, model: &Model) -> Acme {
    let tls = Tls::new(Vec::new());
    Acme::new(settings, folder, model.clone(), tls, Arc::new(SystemClock))
}

#[test]
fn validity_is_that_of_the_first_certificate() {
    let (first, second) = (made().0, rcgen::generate_simple_self_signed([]).unwrap());
    let chain = first + &second.cert.pem();
    let (from, until) = validity(chain.as_bytes()).unwrap();
    assert_eq!((from, until), (1_767_225_600_000, 1_774_915_200_000));
    for odd in [
        "",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        assert!(validity(odd.as_bytes()).is_err());
    }
}

#[tokio::test]
async fn copy_of_a_certificate_serves_a_start_without_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let model = model().await;
    assert_eq!(
        acme(folder.path(), &model).domains()[DOMAIN].not_after_ms,
        None
    );
    let (chain, key) = made();
    let (copies, settings) = (files::folder(folder.path()), settings());
    let copy = files::name(DomainName {
        domain: DOMAIN,
        directory: &settings.directory,
    });
    files::write(&copies, &copy, &chain, &key).unwrap();
    let found = acme(folder.path(), &model).domains();
    assert_eq!(found[DOMAIN].not_after_ms, Some(1_774_915_200_000));
    // That of another authority is not used: it may have been a trial.
    let other = config::Acme {
        directory: "https://127.0.0.1:1/other".into(),
        ..settings
    };
    let found = acme_with(other, folder.path(), &model).domains();
    assert_eq!(found[DOMAIN].not_after_ms, None);
    // A copy that does not fit together is not used.
    files::write(&copies, &copy, &chain, &made().1).unwrap();
    assert_eq!(
        acme(folder.path(), &model).domains()[DOMAIN].not_after_ms,
        None
    );
}

#[tokio::test]
async fn copy_that_cannot_be_written_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let model = model().await;
    let acme = acme(folder.path(), &model);
    let directory = &settings().directory;
    let name = DomainName {
        domain: DOMAIN,
        directory,
    };
    let (chain, key) = made();
    let (not_before_ms, not_after_ms) = validity(chain.as_bytes()).unwrap();
    let new = NewCertificate {
        chain: chain.clone(),
        key: key.clone(),
        not_before_ms,
        not_after_ms,
    };
    let order = model.begin_order(name, super::ORDER_TIME).await;
    let order = order.unwrap().unwrap();
    assert!(model.end_order(name, order, &new).await.unwrap());
    let (copies, copy) = (files::folder(folder.path()), files::name(name));
    std::fs::write(&copies, "in the way").unwrap();
    acme.look_at(DOMAIN).await.unwrap();
    assert_eq!(acme.domains()[DOMAIN].not_after_ms, Some(not_after_ms));
    std::fs::remove_file(&copies).unwrap();
    acme.look_at(DOMAIN).await.unwrap();
    assert_eq!(files::read(&copies, &copy), Some((chain, key)));
    // It is written once.
    std::fs::remove_dir_all(&copies).unwrap();
    acme.look_at(DOMAIN).await.unwrap();
    assert_eq!(files::read(&copies, &copy), None);
}

#[tokio::test]
async fn failed_order_is_told_and_not_repeated_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let model = model().await;
    let acme = acme(folder.path(), &model);
    assert_eq!(acme.warnings(), Vec::<String>::new());
    acme.order_if_due(DOMAIN).await.unwrap();
    let warnings = acme.warnings();
    assert!(
        warnings[0].starts_with("s3.example.org has no certificate: node "),
        "{warnings:?}"
    );
    assert!(
        warnings[0].ends_with("(1 try; the next one in 2 minutes)"),
        "{warnings:?}"
    );
    acme.order_if_due(DOMAIN).await.unwrap();
    assert_eq!(acme.domains()[DOMAIN].failure.as_ref().unwrap().1, 1);
}

#[tokio::test]
async fn proof_is_made_for_a_domain_with_a_challenge_only() {
    let folder = tempfile::tempdir().unwrap();
    let model = model().await;
    let acme = acme(folder.path(), &model);
    assert!(acme.proof("other.example.org").await.is_none());
    let directory = &settings().directory;
    let name = DomainName {
        domain: DOMAIN,
        directory,
    };
    let order = model.begin_order(name, super::ORDER_TIME).await;
    let challenge = Challenge {
        token: "token".into(),
        answer: "token.thumbprint".into(),
    };
    let order = order.unwrap().unwrap();
    assert!(model.show_challenge(name, order, &challenge).await.unwrap());
    assert!(acme.proof(DOMAIN).await.is_some());
    assert!(acme.proof("other.example.org").await.is_none());
    assert_eq!(acme.challenge(DOMAIN).await, Some(challenge));
}

#[tokio::test]
async fn slow_read_for_a_domain_keeps_no_other_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let model = model().await;
    let acme = acme(folder.path(), &model);
    let _reading = acme.0.looked[DOMAIN].lock().await;
    let other = acme.challenge(OTHER_DOMAIN);
    let other = tokio::time::timeout(Duration::from_secs(60), other).await;
    assert_eq!(other, Ok(None));
}
