use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::duplex;
use tokio_rustls::TlsConnector;

use super::{Certificate, Tls};

struct Made {
    certificate: Certificate,
    chain: String,
    key: String,
    der: CertificateDer<'static>,
}

fn made(names: &[&str]) -> Made {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    let (chain, key) = (cert.pem(), signing_key.serialize_pem());
    Made {
        certificate: Certificate::from_pem(chain.as_bytes(), key.as_bytes()).unwrap(),
        chain,
        key,
        der: cert.der().clone(),
    }
}

/// The certificate that a client gets who asks for `name` and trusts all of `known`, and the
/// protocol.
async fn served(
    tls: &Tls,
    known: &[&Made],
    name: &str,
) -> Option<(CertificateDer<'static>, Vec<u8>)> {
    asked(tls, known, name, &[b"h2", b"http/1.1"]).await
}

async fn asked(
    tls: &Tls,
    known: &[&Made],
    name: &str,
    protocols: &[&[u8]],
) -> Option<(CertificateDer<'static>, Vec<u8>)> {
    let mut roots = RootCertStore::empty();
    for made in known {
        roots.add(made.der.clone()).unwrap();
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let (client, server) = duplex(1 << 16);
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let endpoint = tls.for_endpoints();
    let (client, _) = tokio::join!(connector.connect(name, client), endpoint.accept(server));
    let client = client.ok()?;
    let (_, session) = client.get_ref();
    let certificate = session.peer_certificates()?.first()?.clone().into_owned();
    Some((certificate, session.alpn_protocol()?.to_vec()))
}

#[tokio::test]
async fn name_chooses_the_certificate() {
    let (first, second) = (made(&["a.example"]), made(&["b.example", "*.b.example"]));
    let tls = Tls::new(vec![first.certificate.clone(), second.certificate.clone()]);
    for (name, expected) in [
        ("a.example", Some(&first)),
        ("b.example", Some(&second)),
        ("x.b.example", Some(&second)),
        // The first certificate is not for this name: the client refuses it.
        ("c.example", None),
    ] {
        let got = served(&tls, &[&first, &second], name).await;
        let expected = expected.map(|made| (made.der.clone(), b"h2".to_vec()));
        assert_eq!(got, expected, "{name}");
    }
}

#[tokio::test]
async fn replaced_certificates_count_for_the_next_connection() {
    let (old, new) = (made(&["a.example"]), made(&["a.example"]));
    let tls = Tls::new(vec![old.certificate.clone()]);
    assert!(served(&tls, &[&old], "a.example").await.is_some());
    assert!(served(&tls, &[&new], "a.example").await.is_none());
    tls.replace(vec![new.certificate.clone()]);
    assert!(served(&tls, &[&new], "a.example").await.is_some());
    assert!(served(&tls, &[&old], "a.example").await.is_none());
}

#[tokio::test]
async fn issued_certificate_goes_before_the_configured_ones() {
    let (other, issued) = (made(&["a.example", "b.example"]), made(&["a.example"]));
    let tls = Tls::new(vec![other.certificate.clone()]);
    tls.use_issued("A.example", issued.certificate.clone());
    let known = [&other, &issued];
    for (name, expected) in [("a.example", &issued), ("b.example", &other)] {
        let got = served(&tls, &known, name).await.unwrap();
        assert_eq!(got.0, expected.der, "{name}");
    }
}

#[tokio::test]
async fn placeholder_gives_way_to_any_other_certificate() {
    let (placeholder, issued) = (made(&["a.example", "b.example"]), made(&["a.example"]));
    let tls = Tls::new(Vec::new());
    assert_eq!(served(&tls, &[&placeholder], "b.example").await, None);
    tls.use_placeholder(placeholder.certificate.clone());
    let known = [&placeholder, &issued];
    assert!(served(&tls, &known, "b.example").await.is_some());
    tls.use_issued("a.example", issued.certificate.clone());
    // The client refuses what is not for the name.
    assert_eq!(served(&tls, &known, "b.example").await, None);
}

#[tokio::test]
async fn proof_is_shown_to_an_authority_alone() {
    let (ordinary, proof) = (made(&["a.example", "b.example"]), made(&["a.example"]));
    let tls = Tls::new(vec![ordinary.certificate.clone()]);
    let known = [&ordinary, &proof];
    let authority: [&[u8]; 1] = [b"acme-tls/1"];
    assert_eq!(asked(&tls, &known, "a.example", &authority).await, None);
    let shown = proof.certificate.clone();
    tls.prove_by(Box::new(move |domain| {
        let shown = (domain == "a.example").then(|| shown.clone());
        Box::pin(async move { shown })
    }));
    let got = asked(&tls, &known, "a.example", &authority).await;
    assert_eq!(got, Some((proof.der.clone(), authority[0].to_vec())));
    assert_eq!(asked(&tls, &known, "b.example", &authority).await, None);
    let got = served(&tls, &known, "a.example").await.unwrap();
    assert_eq!(got.0, ordinary.der);
}

#[test]
fn what_is_no_certificate_with_its_key_is_refused() {
    let (one, other) = (made(&["a.example"]), made(&["a.example"]));
    for (chain, key, why) in [
        ("", one.key.as_str(), "no certificate"),
        (one.chain.as_str(), "", "no private key"),
        (&one.chain, &other.key, "do not fit"),
        (&one.key, &one.key, "no certificate"),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            &one.key,
            "cannot be used",
        ),
    ] {
        let refused = Certificate::from_pem(chain.as_bytes(), key.as_bytes()).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
}
