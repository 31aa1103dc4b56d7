//! Sources that answer, and sources that fail.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::{TlsAcceptor, rustls};

use super::*;
use crate::config::{Consul, Kubernetes, Secret};

/// A server that answers every request with this status and document, and keeps the requests.
struct Server {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
    answer: Arc<Mutex<(u16, String)>>,
}

impl Server {
    async fn start(document: &str) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let answer = Arc::new(Mutex::new((200, document.to_owned())));
        let (keeps, gives) = (asked.clone(), answer.clone());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; 4096];
                let length = stream.read(&mut request).await.unwrap();
                let text = String::from_utf8_lossy(&request[..length]).into_owned();
                keeps.lock().push(text);
                let (status, document) = gives.lock().clone();
                let length = document.len();
                let head = format!("HTTP/1.1 {status} Status\r\ncontent-length: {length}\r\n\r\n");
                let whole = head + &document;
                stream.write_all(whole.as_bytes()).await.unwrap();
            }
        });
        Server {
            address,
            asked,
            answer,
        }
    }

    fn consul(&self) -> Discovery {
        Discovery::Consul(Consul {
            agent: format!("http://{}", self.address),
            service: "archipel".into(),
            token: Some(Secret::of("consul-token-of-16".into())),
        })
    }

    fn last(&self) -> String {
        self.asked.lock().last().cloned().unwrap().to_lowercase()
    }
}

/// The shape of the answer in the documentation of Consul's API, shortened.
const INSTANCES: &str = r#"[
  {"Node": {"Node": "one", "Address": "10.1.10.12", "Datacenter": "dc1"},
   "Service": {"ID": "a", "Service": "archipel", "Address": "", "Port": 3901, "Tags": []},
   "Checks": [{"Status": "critical"}]},
  {"Node": {"Node": "two", "Address": "10.1.10.13"},
   "Service": {"ID": "b", "Service": "archipel", "Address": "2001:db8::7", "Port": 3902},
   "Checks": []}
]"#;

/// The shape of the answer in the documentation of Kubernetes' API, shortened.
const SLICES: &str = r#"{"kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1", "metadata": {},
  "items": [
    {"metadata": {"name": "archipel-4"}, "addressType": "IPv4", "ports": [{"port": 3901}],
     "endpoints": [
       {"addresses": ["10.244.1.7"], "conditions": {"ready": true}},
       {"addresses": ["10.244.2.9"], "conditions": {"ready": false}}]},
    {"metadata": {"name": "archipel-6"}, "addressType": "IPv6", "endpoints": [{"addresses": ["fd00::7"]}]},
    {"metadata": {"name": "none"}, "addressType": "IPv4", "endpoints": null}
  ]}"#;

#[tokio::test]
async fn consul_tells_all_instances_also_those_that_are_not_healthy_yet() {
    let server = Server::start(INSTANCES).await;
    let lookups = Lookups::new(&[server.consul()], false);
    assert_eq!(
        lookups.look().await,
        [["10.1.10.12:3901", "[2001:db8::7]:3902"]]
    );
    let asked = server.last();
    assert!(
        asked.starts_with("get /v1/health/service/archipel http/1.1"),
        "{asked}"
    );
    assert!(
        asked.contains("x-consul-token: consul-token-of-16"),
        "{asked}"
    );
}

#[tokio::test]
async fn a_source_that_fails_keeps_its_addresses_and_is_counted() {
    let server = Server::start(INSTANCES).await;
    let lookups = Lookups::new(&[server.consul()], true);
    let before = lookups.look().await;
    assert_eq!(before[0][0], "tcp://10.1.10.12:3901");
    for (status, document, why) in [
        (403, "Permission denied", "403"),
        (200, "{}", "invalid type"),
        (200, "[{\"Node\": {}}]", "missing field"),
    ] {
        *server.answer.lock() = (status, document.into());
        assert_eq!(lookups.look().await, before);
        let (_, told) = lookups.told().remove(0);
        assert!(
            told.trouble.as_ref().is_some_and(|told| told.contains(why)),
            "{told:?}"
        );
    }
    assert_eq!(lookups.told()[0].1.failed, 3);
    *server.answer.lock() = (200, "[]".into());
    assert_eq!(lookups.look().await, [Vec::<String>::new()]);
    assert_eq!(lookups.told()[0].1.trouble, None);
}

#[tokio::test]
async fn kubernetes_tells_all_endpoints_to_the_service_account() {
    let server = Server::start(SLICES).await;
    let account = tempfile::tempdir().unwrap();
    let service = Kubernetes {
        server: format!("http://{}", server.address),
        namespace: "storage".into(),
        service: "archipel".into(),
        port: 3901,
        account: account.path().into(),
    };
    let source = Discovery::Kubernetes(service);
    let without = find(&source).await.unwrap_err();
    assert!(without.contains("token: No such file"), "{without}");
    std::fs::write(account.path().join("token"), "the-token\n").unwrap();
    let found = find(&source).await.unwrap();
    assert_eq!(
        found,
        ["10.244.1.7:3901", "10.244.2.9:3901", "[fd00::7]:3901"]
    );
    let asked = server.last();
    let path = "/apis/discovery.k8s.io/v1/namespaces/storage/endpointslices?labelselector=kubernetes.io%2fservice-name%3darchipel";
    assert!(
        asked.starts_with(&format!("get {path} http/1.1")),
        "{asked}"
    );
    assert!(
        asked.contains("authorization: bearer the-token\r\n"),
        "{asked}"
    );
}

/// The API server has a certificate of the cluster's own authority, which the account names.
#[tokio::test]
async fn the_certificate_of_the_api_server_is_checked() {
    let account = tempfile::tempdir().unwrap();
    std::fs::write(account.path().join("token"), "the-token\n").unwrap();
    let server = Server::start(SLICES).await;
    let mut service = Kubernetes {
        server: format!("https://{}", server.address),
        namespace: "storage".into(),
        service: "archipel".into(),
        port: 3901,
        account: account.path().into(),
    };
    let missing = kubernetes::endpoints(&service).await.unwrap_err();
    assert!(missing.contains("ca.crt: No such file"), "{missing}");
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    std::fs::write(account.path().join("ca.crt"), made.cert.pem()).unwrap();
    // It speaks no TLS.
    assert!(kubernetes::endpoints(&service).await.is_err());
    let port = speak_tls(&made).await;
    service.server = format!("https://localhost:{port}");
    assert_eq!(kubernetes::endpoints(&service).await.unwrap().len(), 3);
    let other = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    std::fs::write(account.path().join("ca.crt"), other.cert.pem()).unwrap();
    let refused = kubernetes::endpoints(&service).await.unwrap_err();
    assert!(refused.contains("certificate"), "{refused}");
}

/// Starts an API server with this certificate. Returns its port.
async fn speak_tls(made: &rcgen::CertifiedKey<rcgen::KeyPair>) -> u16 {
    let listener = TcpListener::bind("localhost:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key);
    let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let mut request = vec![0; 4096];
            let _ = stream.read(&mut request).await;
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n",
                SLICES.len()
            );
            let _ = stream.write_all((head + SLICES).as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    port
}

#[tokio::test]
async fn names_and_addresses_are_looked_up() {
    let source = |host: &str| Discovery::Dns {
        host: host.into(),
        port: 3901,
    };
    assert_eq!(
        find(&source("127.0.0.9")).await.unwrap(),
        ["127.0.0.9:3901"]
    );
    let none = find(&source("no-such-name.invalid")).await.unwrap_err();
    assert!(none.starts_with("no-such-name.invalid: "), "{none}");
}
