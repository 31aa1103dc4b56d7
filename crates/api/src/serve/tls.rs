//! TLS for users: certificates, chosen by the name that a client asks for, and exchanged while
//! connections are open. Also answers an authority that asks for the proof of a domain (RFC 8737).

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{Acceptor, ClientHello, ResolvesServerCert};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;
use webpki::EndEntityCert;

/// The protocols that endpoints speak, the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The protocol that the admin API speaks.
const ADMIN: [&[u8]; 1] = [b"http/1.1"];

/// The protocol by which an authority asks for the proof of a domain.
const PROOF: &[u8] = b"acme-tls/1";

/// Returns the certificate that proves a domain to an authority, if one is to be shown now.
pub type Proofs = Box<dyn Fn(String) -> BoxFuture<'static, Option<Certificate>> + Send + Sync>;

/// A certificate with its chain and its key.
#[derive(Clone, Debug)]
pub struct Certificate(Arc<CertifiedKey>);

impl Certificate {
    /// Reads a chain (the certificate first) and its private key, both in PEM.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Certificate, String> {
        let chain: Result<Vec<CertificateDer<'static>>, _> =
            CertificateDer::pem_slice_iter(chain).collect();
        let chain = chain.map_err(|error| format!("the chain is not PEM: {error}"))?;
        let first = chain
            .first()
            .ok_or("there is no certificate in the chain")?;
        EndEntityCert::try_from(first)
            .map_err(|error| format!("the first certificate cannot be used: {error}"))?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| format!("there is no private key in the key file: {error}"))?;
        let key = CertifiedKey::from_der(chain, key, &default_provider())
            .map_err(|error| format!("certificate and key do not fit: {error}"))?;
        Ok(Certificate(Arc::new(key)))
    }

    /// Uses a certificate that proves a domain to an authority, and its key. Nobody else can use
    /// it: it has an extension that other clients must refuse.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn for_proof(
        certificate: CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Certificate, String> {
        let key = any_supported_type(&key).map_err(|error| error.to_string())?;
        let key = CertifiedKey::new(vec![certificate], key);
        Ok(Certificate(Arc::new(key)))
    }

    fn is_for(&self, name: &ServerName<'_>) -> bool {
        let first = self.0.cert.first().map(EndEntityCert::try_from);
        let Some(Ok(certificate)) = first else {
            return false;
        };
        certificate.verify_is_valid_for_subject_name(name).is_ok()
    }
}

/// The certificates of a node. A clone shares them.
#[derive(Clone)]
pub struct Tls(Arc<Certificates>);

struct Certificates {
    held: RwLock<Held>,
    proofs: OnceLock<Proofs>,
}

#[derive(Default)]
struct Held {
    /// Those of the settings.
    configured: Vec<Certificate>,
    /// Those that an authority gave, by domain.
    issued: BTreeMap<String, Certificate>,
    /// For the time when there is no other.
    placeholder: Option<Certificate>,
}

impl Tls {
    /// Uses these certificates. The first one is for clients that name no host, or an unknown one.
    pub fn new(certificates: Vec<Certificate>) -> Tls {
        Tls(Arc::new(Certificates {
            held: RwLock::new(Held {
                configured: certificates,
                ..Held::default()
            }),
            proofs: OnceLock::new(),
        }))
    }

    /// Uses these certificates for connections from now on.
    pub fn replace(&self, certificates: Vec<Certificate>) {
        self.0.held.write().configured = certificates;
    }

    /// Uses the certificate that an authority gave for a domain, from now on. It goes before those
    /// of the settings.
    pub fn use_issued(&self, domain: &str, certificate: Certificate) {
        let domain = domain.to_ascii_lowercase();
        self.0.held.write().issued.insert(domain, certificate);
    }

    /// Uses a certificate that no client trusts while there is no other.
    pub fn use_placeholder(&self, certificate: Certificate) {
        self.0.held.write().placeholder = Some(certificate);
    }

    /// Asks `proofs` when an authority wants the proof of a domain. Later calls change nothing.
    pub fn prove_by(&self, proofs: Proofs) {
        let _ = self.0.proofs.set(proofs);
    }

    pub(crate) fn for_endpoints(&self) -> Handshakes {
        self.acceptor(&PROTOCOLS)
    }

    pub(crate) fn for_admin(&self) -> Handshakes {
        self.acceptor(&ADMIN)
    }

    fn acceptor(&self, protocols: &[&[u8]]) -> Handshakes {
        Handshakes {
            config: config(protocols, self.0.clone()),
            certificates: self.0.clone(),
        }
    }
}

fn config(protocols: &[&[u8]], certificates: Arc<dyn ResolvesServerCert>) -> Arc<ServerConfig> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has TLS 1.2 and 1.3")
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Arc::new(config)
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let held = self.held.read();
        let (configured, issued) = (held.configured.len(), held.issued.len());
        write!(
            f,
            "{configured} configured and {issued} issued certificates"
        )
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let held = self.held.read();
        let (configured, issued) = (&held.configured, &held.issued);
        let name = hello.server_name();
        let of_name = name.and_then(|name| issued.get(&name.to_ascii_lowercase()));
        let name = name.and_then(|name| ServerName::try_from(name).ok());
        let fitting = |name| configured.iter().find(|one| one.is_for(&name));
        let found = of_name.or_else(|| name.and_then(fitting));
        let any = || configured.first().or_else(|| issued.values().next());
        let any = || any().or(held.placeholder.as_ref());
        found.or_else(any).map(|one| one.0.clone())
    }
}

/// Makes TLS sessions of connections.
#[derive(Clone)]
pub(crate) struct Handshakes {
    config: Arc<ServerConfig>,
    certificates: Arc<Certificates>,
}

impl Handshakes {
    pub(crate) async fn accept<T>(&self, stream: T) -> io::Result<TlsStream<T>>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let begun = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        let Some(domain) = wanted_proof(&begun.client_hello()) else {
            return begun.into_stream(self.config.clone()).await;
        };
        let config = self.proof(domain).await?;
        begun.into_stream(config).await?.shutdown().await?;
        Err(io::Error::other("an authority got its proof"))
    }

    async fn proof(&self, domain: String) -> io::Result<Arc<ServerConfig>> {
        let proofs = self.certificates.proofs.get();
        let proof = match proofs {
            Some(proofs) => proofs(domain).await,
            None => None,
        };
        let proof = proof.ok_or_else(|| io::Error::other("no proof is to be shown now"))?;
        let only = SingleCertAndKey::from(proof.0);
        Ok(config(&[PROOF], Arc::new(only)))
    }
}

/// Returns the domain whose proof an authority asks for, if it does.
fn wanted_proof(hello: &ClientHello<'_>) -> Option<String> {
    let mut protocols = hello.alpn()?;
    let wants = protocols.any(|protocol| protocol == PROOF);
    let domain = hello.server_name().filter(|_| wants)?;
    Some(domain.to_ascii_lowercase())
}

#[cfg(test)]
mod tests;
