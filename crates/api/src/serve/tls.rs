//! TLS for users: certificates, chosen by the name that a client asks for, and exchanged while
//! connections are open.

use std::io;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use webpki::EndEntityCert;

/// The protocols that doors speak, the preferred one first.
const DOORS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The protocol that the admin API speaks.
const ADMIN: [&[u8]; 1] = [b"http/1.1"];

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

    fn is_for(&self, name: &ServerName<'_>) -> bool {
        let first = self.0.cert.first().map(EndEntityCert::try_from);
        let Some(Ok(certificate)) = first else {
            return false;
        };
        certificate.verify_is_valid_for_subject_name(name).is_ok()
    }
}

/// The certificates of a node. A clone shares them.
#[derive(Clone, Debug)]
pub struct Tls(Arc<Certificates>);

#[derive(Debug)]
struct Certificates(RwLock<Vec<Certificate>>);

impl Tls {
    /// Uses these certificates. The first one is for clients that name no host, or an unknown one.
    pub fn new(certificates: Vec<Certificate>) -> Tls {
        Tls(Arc::new(Certificates(RwLock::new(certificates))))
    }

    /// Uses these certificates for connections from now on.
    pub fn replace(&self, certificates: Vec<Certificate>) {
        *self.0.0.write() = certificates;
    }

    pub(crate) fn for_doors(&self) -> Handshakes {
        self.acceptor(&DOORS)
    }

    pub(crate) fn for_admin(&self) -> Handshakes {
        self.acceptor(&ADMIN)
    }

    fn acceptor(&self, protocols: &[&[u8]]) -> Handshakes {
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has TLS 1.2 and 1.3")
            .with_no_client_auth()
            .with_cert_resolver(self.0.clone());
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Handshakes(TlsAcceptor::from(Arc::new(config)))
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let all = self.0.read();
        let name = hello
            .server_name()
            .and_then(|name| ServerName::try_from(name).ok());
        let fitting = name.and_then(|name| all.iter().find(|one| one.is_for(&name)));
        fitting.or(all.first()).map(|one| one.0.clone())
    }
}

/// Makes TLS sessions of connections.
#[derive(Clone)]
pub(crate) struct Handshakes(TlsAcceptor);

impl Handshakes {
    pub(crate) async fn accept<T>(&self, stream: T) -> io::Result<TlsStream<T>>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        self.0.accept(stream).await
    }
}

#[cfg(test)]
mod tests;
