//! The certificates of a running node: loaded at the start, and again when their files change.

use std::time::Duration;

use archipel_api::serve::tls::{Certificate, Tls};

use crate::config::certificates::{Content, hosts};
use crate::config::{self, CertificateFiles, Settings};

/// The time between two reads of the files.
const INTERVAL: Duration = Duration::from_secs(10);

/// Loads the certificates that the settings name. Makes one if the settings ask for it. Returns the
/// content of their files, too, for [`watch`]: a start takes time, and they may change meanwhile.
///
/// # Errors
/// A text for the operator.
pub fn load(settings: &Settings) -> Result<Option<(Tls, Vec<Content>)>, String> {
    let Some(tls) = &settings.tls else {
        return Ok(None);
    };
    if tls.self_signed {
        make(settings, tls)?;
    }
    let content = read(&tls.certificates)?;
    let tls = Tls::new(parse(&content)?);
    if let Some(acme) = &settings.acme {
        tls.use_placeholder(placeholder(&acme.domains)?);
    }
    Ok(Some((tls, content)))
}

/// Returns a certificate for the time before the authority has given one. No client trusts it.
fn placeholder(domains: &[String]) -> Result<Certificate, String> {
    let made = rcgen::generate_simple_self_signed(domains.to_vec());
    let made = made.map_err(|error| format!("acme.domains: {error}"))?;
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    Certificate::from_pem(chain.as_bytes(), key.as_bytes())
}

fn make(settings: &Settings, tls: &config::Tls) -> Result<(), String> {
    let mut addresses = vec![settings.s3.listen.ip()];
    addresses.extend(settings.web.as_ref().map(|web| web.listen.ip()));
    addresses.extend(settings.k2v.as_ref().map(|k2v| k2v.listen.ip()));
    addresses.extend(settings.admin.listen.map(|admin| admin.ip()));
    let mut domains = settings.s3.base_domains.clone();
    let web = settings.web.as_ref();
    domains.extend(web.and_then(|web| web.root_domain.clone()));
    for files in &tls.certificates {
        files.make(&hosts(&addresses, &domains))?;
        tracing::warn!(
            certificate = %files.chain.display(),
            "TLS uses a certificate that this node made itself; clients trust it only if they are \
             given that file"
        );
    }
    Ok(())
}

/// Uses changed files as soon as they are whole and fit. `last` is the content in use.
pub async fn watch(files: Vec<CertificateFiles>, tls: Tls, mut last: Vec<Content>) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        let Some(content) = changed(&files, &last).await else {
            continue;
        };
        match parse(&content) {
            Ok(certificates) => {
                tls.replace(certificates);
                tracing::info!("changed certificates are in use");
            }
            Err(error) => {
                tracing::warn!(
                    error,
                    "changed certificates cannot be used; the present ones stay"
                );
            }
        }
        last = content;
    }
}

/// Returns the content of the files if it is another one than `last`.
async fn changed(files: &[CertificateFiles], last: &[Content]) -> Option<Vec<Content>> {
    let files = files.to_vec();
    // Files may be on a slow disk.
    let read = tokio::task::spawn_blocking(move || read(&files)).await;
    let Ok(Ok(content)) = read else {
        tracing::warn!("certificates cannot be read again; the present ones stay in use");
        return None;
    };
    (content != last).then_some(content)
}

fn read(files: &[CertificateFiles]) -> Result<Vec<Content>, String> {
    let read = |files: &CertificateFiles| {
        files.read().map_err(|(part, refused)| {
            let path = if part == "key" {
                &files.key
            } else {
                &files.chain
            };
            format!("{}: {}; fix: {}", path.display(), refused.why, refused.fix)
        })
    };
    files.iter().map(read).collect()
}

fn parse(content: &[Content]) -> Result<Vec<Certificate>, String> {
    content.iter().map(Content::parse).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{changed, load, read};
    use crate::config::{self, CertificateFiles};

    #[test]
    fn self_signed_certificate_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let mut settings = config::for_demo(folder.path().to_owned(), any, any, any, any);
        assert!(load(&settings).unwrap().is_none());
        let files = CertificateFiles::self_signed(folder.path());
        settings.tls = Some(config::Tls {
            certificates: vec![files.clone()],
            listeners: vec!["s3".into()],
            self_signed: true,
        });
        assert!(settings.has_tls("s3") && !settings.has_tls("web"));
        assert!(load(&settings).unwrap().is_some());
        let first = read(std::slice::from_ref(&files)).unwrap();
        assert!(load(&settings).unwrap().is_some());
        assert!(first == read(std::slice::from_ref(&files)).unwrap());
        let mode = std::fs::metadata(&files.key).unwrap().permissions();
        let mode = std::os::unix::fs::PermissionsExt::mode(&mode);
        assert_eq!(mode & 0o077, 0, "{mode:o}");
    }

    /// A start may take minutes: the storage recovers, and the other nodes are looked for.
    #[tokio::test]
    async fn certificates_that_change_during_the_start_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let mut settings = config::for_demo(folder.path().to_owned(), any, any, any, any);
        let files = vec![CertificateFiles::self_signed(folder.path())];
        settings.tls = Some(config::Tls {
            certificates: files.clone(),
            listeners: vec!["s3".into()],
            self_signed: true,
        });
        let (_tls, loaded) = load(&settings).unwrap().unwrap();
        assert!(changed(&files, &loaded).await.is_none());
        std::fs::remove_file(&files[0].chain).unwrap();
        files[0].make(&["localhost".into()]).unwrap();
        let now = changed(&files, &loaded).await.unwrap();
        assert!(changed(&files, &now).await.is_none());
    }

    #[test]
    fn interval_is_what_the_settings_promise() {
        assert_eq!(super::INTERVAL, Duration::from_secs(10));
        assert!(config::EXAMPLE.contains("noticed within 10 seconds"));
    }
}
