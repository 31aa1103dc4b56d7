//! Certificates from files, and one that the node makes itself.

use std::fs;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use archipel_api::serve::tls::Certificate;
use x509_parser::pem::Pem;

use super::secret::{Refused, check_mode};
use crate::identity::replace;

/// The limit of a file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The files of a certificate that the node makes itself, in the data folder.
const SELF_SIGNED: [&str; 2] = ["self-signed.pem", "self-signed.key"];

/// The files of a certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateFiles {
    /// The certificate and those that link it to a known one, in PEM.
    pub chain: PathBuf,
    /// The private key, in PEM.
    pub key: PathBuf,
}

/// The content of a certificate's files.
#[derive(Clone, PartialEq, Eq)]
pub struct Content {
    chain: Vec<u8>,
    key: Vec<u8>,
}

impl CertificateFiles {
    /// Returns the files of the certificate that the node makes itself.
    pub fn self_signed(data_dir: &Path) -> CertificateFiles {
        let [chain, key] = SELF_SIGNED.map(|name| data_dir.join(name));
        CertificateFiles { chain, key }
    }

    /// Reads the files. The key must not be readable by everybody.
    ///
    /// # Errors
    /// The setting's last part (`chain` or `key`), and why.
    pub fn read(&self) -> Result<Content, (&'static str, Refused)> {
        let chain = read(&self.chain).map_err(|error| ("chain", unreadable(error)))?;
        check_mode(&self.key).map_err(|refused| ("key", refused))?;
        let key = read(&self.key).map_err(|error| ("key", unreadable(error)))?;
        Ok(Content { chain, key })
    }

    /// Makes a certificate for these hosts, unless the files are there.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn make(&self, hosts: &[String]) -> Result<(), String> {
        if self.chain.exists() && self.key.exists() {
            return Ok(());
        }
        let failed = |why: String| format!("tls.self_signed: {why}");
        let made = rcgen::generate_simple_self_signed(hosts.to_vec());
        let made = made.map_err(|error| failed(error.to_string()))?;
        // The key first: without its certificate it is made again.
        replace(&self.key, made.signing_key.serialize_pem().as_bytes())
            .and_then(|()| replace(&self.chain, made.cert.pem().as_bytes()))
            .map_err(|error| failed(format!("{}: {error}", self.chain.display())))
    }
}

impl Content {
    /// Parses the content.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn parse(&self) -> Result<Certificate, String> {
        Certificate::from_pem(&self.chain, &self.key)
    }

    /// Returns until when the first certificate is valid, in milliseconds since 1970.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn not_after_ms(&self) -> Result<u64, String> {
        validity(&self.chain).map(|(_, not_after_ms)| not_after_ms)
    }
}

/// Returns from when and until when the first certificate of a chain is valid, in milliseconds
/// since 1970.
///
/// # Errors
/// A text for the operator.
pub fn validity(chain: &[u8]) -> Result<(u64, u64), String> {
    let first = Pem::iter_from_buffer(chain).next();
    let first = first.ok_or("there is no certificate in the chain")?;
    let first = first.map_err(|error| format!("the chain is not PEM: {error}"))?;
    let certificate = first.parse_x509();
    let certificate = certificate.map_err(|error| format!("the certificate is odd: {error}"))?;
    let validity = certificate.validity();
    let millis = |time: x509_parser::time::ASN1Time| {
        u64::try_from(time.timestamp()).unwrap_or_default() * 1000
    };
    Ok((millis(validity.not_before), millis(validity.not_after)))
}

/// Returns the hosts for which the node makes a certificate: those of its settings, and loopback.
pub fn hosts(addresses: &[IpAddr], domains: &[String]) -> Vec<String> {
    let mut hosts = vec!["localhost".to_owned(), "127.0.0.1".into(), "::1".into()];
    let named = addresses.iter().filter(|ip| !ip.is_unspecified());
    hosts.extend(named.map(IpAddr::to_string));
    for domain in domains {
        hosts.extend([domain.clone(), format!("*.{domain}")]);
    }
    hosts.sort();
    hosts.dedup();
    hosts
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?
        .take(MAX_FILE_BYTES)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(error: io::Error) -> Refused {
    Refused {
        why: format!("cannot read the file: {error}"),
        fix: "check that the file exists and that the server's user may read it".into(),
    }
}
