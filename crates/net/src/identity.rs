//! A node's identity: an ed25519 key as a raw public key in TLS 1.3 (RFC 7250), and the cluster's
//! secret, proven over the TLS session.
//!
//! Both ends sign the handshake with their keys. The dialling end knows the expected key. Then each
//! end proves the secret by an HMAC over keying material of this session (RFC 8446, section 7.5),
//! so that the proof is useless in any other session. Before that proof an end neither reads nor
//! answers anything else.

use std::fmt;
use std::sync::Arc;

use archipel_base::NodeId;
use ring::hmac;
use ring::signature::{Ed25519KeyPair, KeyPair};
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, ServerConfig,
    SignatureScheme,
};

/// The prefix of an ed25519 key in its SubjectPublicKeyInfo (RFC 8410).
const SPKI_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
/// The protocol's name. TLS refuses other protocols in the handshake.
pub(crate) const ALPN: &[u8] = b"archipel/1";
/// The label of the TLS exporter.
pub(crate) const LABEL: &[u8] = b"EXPORTER archipel cluster secret";
/// The size of a proof, of its keying material, and of a derived key.
pub(crate) const PROOF_BYTES: usize = 32;

/// The number of secrets that a node knows at most.
pub(crate) const SECRETS: usize = 2;
/// A proof of each secret. A node with one secret proves it twice.
pub(crate) type Proofs = [[u8; PROOF_BYTES]; SECRETS];

/// A node's key and the cluster's secret.
#[derive(Clone)]
pub struct Identity {
    node: NodeId,
    key: Arc<CertifiedKey>,
    /// The secrets: the present one, and another that is still taken or already.
    secrets: [hmac::Key; SECRETS],
    /// The key from which keys for other purposes are derived.
    root: hmac::Key,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.node.short())
    }
}

/// An end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Dialling,
    Listening,
}

impl Identity {
    /// Creates an identity from the PKCS#8 document of an ed25519 key and the cluster's secret.
    ///
    /// # Errors
    /// A text if the document holds no ed25519 key.
    pub fn new(pkcs8: &[u8], secret: &[u8]) -> Result<Identity, String> {
        let text = |error: &dyn fmt::Display| format!("the node's key: {error}");
        let pair = Ed25519KeyPair::from_pkcs8(pkcs8).map_err(|error| text(&error))?;
        let mut node = NodeId::default();
        node.0.copy_from_slice(pair.public_key().as_ref());
        let der = PrivatePkcs8KeyDer::from(pkcs8.to_vec());
        let signing = provider::sign::any_eddsa_type(&der).map_err(|error| text(&error))?;
        let spki = CertificateDer::from(spki_of(&node));
        Ok(Identity {
            node,
            key: Arc::new(CertifiedKey::new(vec![spki], signing)),
            secrets: [secret, secret].map(|secret| hmac::Key::new(hmac::HMAC_SHA256, secret)),
            root: hmac::Key::new(hmac::HMAC_SHA256, pkcs8),
        })
    }

    /// Takes the secret before as well, and proves it to nodes that know no other.
    #[must_use]
    pub fn with_previous(mut self, secret: &[u8]) -> Identity {
        self.secrets[1] = hmac::Key::new(hmac::HMAC_SHA256, secret);
        self
    }

    /// Returns the node's id.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Returns a secret key for one purpose. It is derived from the node's own key, and is the same
    /// in each run of the node.
    pub(crate) fn derive(&self, purpose: &[u8]) -> [u8; PROOF_BYTES] {
        let mut key = [0; PROOF_BYTES];
        key.copy_from_slice(hmac::sign(&self.root, purpose).as_ref());
        key
    }

    /// Returns the proofs of the secrets by one side of the session with this keying material.
    pub(crate) fn prove(&self, side: Side, keying: &[u8; PROOF_BYTES]) -> Proofs {
        let message = proof_message(side, keying);
        self.secrets.each_ref().map(|secret| {
            let mut proof = [0; PROOF_BYTES];
            proof.copy_from_slice(hmac::sign(secret, &message).as_ref());
            proof
        })
    }

    /// Returns which secret a proof of the other side proves. The time does not depend on the
    /// proof.
    pub(crate) fn verify(
        &self,
        side: Side,
        keying: &[u8; PROOF_BYTES],
        proof: &[u8],
    ) -> Option<usize> {
        let message = proof_message(side, keying);
        let right = |secret: &hmac::Key| hmac::verify(secret, &message, proof).is_ok();
        let [present, other] = self.secrets.each_ref().map(right);
        match (present, other) {
            (true, _) => Some(0),
            (false, true) => Some(1),
            (false, false) => None,
        }
    }

    /// Returns the TLS configuration for dialling `expected`, or any node if `None`.
    pub(crate) fn client(&self, expected: Option<NodeId>) -> Result<ClientConfig, rustls::Error> {
        let provider = Arc::new(suites());
        let verifier = Arc::new(Verifier {
            expected,
            provider: provider.clone(),
        });
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(
                self.key.clone(),
            )));
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(config)
    }

    /// Returns the TLS configuration for listening.
    pub(crate) fn server(&self) -> Result<ServerConfig, rustls::Error> {
        let provider = Arc::new(suites());
        let verifier = Arc::new(Verifier {
            expected: None,
            provider: provider.clone(),
        });
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(
                self.key.clone(),
            )));
        config.alpn_protocols = vec![ALPN.to_vec()];
        // Sessions are not resumed: each one needs a new proof.
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}

fn proof_message(side: Side, keying: &[u8; PROOF_BYTES]) -> Vec<u8> {
    let role: &[u8] = match side {
        Side::Dialling => b"dialling",
        Side::Listening => b"listening",
    };
    [role, keying].concat()
}

/// Returns the cipher suites. AES-128 comes first: it is the fastest where the processor supports
/// it.
fn suites() -> CryptoProvider {
    let mut provider = provider::default_provider();
    provider.cipher_suites = vec![
        provider::cipher_suite::TLS13_AES_128_GCM_SHA256,
        provider::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ];
    provider
}

fn spki_of(node: &NodeId) -> Vec<u8> {
    [&SPKI_PREFIX[..], node.as_bytes()].concat()
}

/// Returns the node id of a raw public key, or `None` if it is no ed25519 key.
pub(crate) fn node_of(spki: &[u8]) -> Option<NodeId> {
    let key = spki.strip_prefix(&SPKI_PREFIX)?;
    Some(NodeId(key.try_into().ok()?))
}

/// Returns the node id of a TLS peer.
pub(crate) fn peer_of(keys: &[CertificateDer<'_>]) -> Option<NodeId> {
    node_of(keys.first()?)
}

#[derive(Debug)]
struct Verifier {
    expected: Option<NodeId>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn key(&self, spki: &[u8]) -> Result<(), rustls::Error> {
        let refused = rustls::Error::InvalidCertificate(CertificateError::BadEncoding);
        let node = node_of(spki).ok_or(refused)?;
        if self.expected.is_none_or(|expected| expected == node) {
            Ok(())
        } else {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::ApplicationVerificationFailure,
            ))
        }
    }

    fn signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let spki = SubjectPublicKeyInfoDer::from(key.as_ref());
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &spki, signed, algorithms)
    }
}

/// Defines the methods that the traits of both ends have in common.
macro_rules! both_ends {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            // TLS 1.2 is not offered.
            Err(rustls::Error::General("only TLS 1.3 is supported".into()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            key: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            self.signature(message, key, signed)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.key(key).map(|()| ServerCertVerified::assertion())
    }

    both_ends!();
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.key(key).map(|()| ClientCertVerified::assertion())
    }

    both_ends!();
}
