//! The certificates of a running node: loaded at the start, and again when their files change.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use archipel_api::serve::tls::{Certificate, Tls};
use archipel_base::clock::WallClock;
use parking_lot::Mutex;

use crate::config::certificates::{Content, hosts};
use crate::config::{self, CertificateFiles, Settings};

/// The time between two reads of the files.
const INTERVAL: Duration = Duration::from_secs(10);

/// A certificate that ends sooner than this is warned of: authorities advise to have replaced it by
/// then.
const SOON_MS: u64 = 14 * DAY_MS;

const DAY_MS: u64 = 24 * 3600 * 1000;

/// The certificates of a starting node.
pub struct Loaded {
    pub tls: Tls,
    pub in_use: InUse,
    /// The content of their files. A start takes time, and they may change meanwhile.
    content: Vec<Content>,
}

/// Until when the certificates in files are valid. A clone shares them.
#[derive(Clone, Default)]
pub struct InUse(Arc<Mutex<Vec<(PathBuf, u64)>>>);

impl InUse {
    /// Returns those of files with this content.
    pub fn of(files: &[CertificateFiles], content: &[Content]) -> InUse {
        let in_use = InUse::default();
        in_use.replace(files, content);
        in_use
    }

    fn replace(&self, files: &[CertificateFiles], content: &[Content]) {
        let end = |(files, content): (&CertificateFiles, &Content)| {
            // TLS has accepted the certificate; what is odd in it is nothing for a clock.
            let not_after_ms = content.not_after_ms().ok()?;
            Some((files.chain.clone(), not_after_ms))
        };
        *self.0.lock() = files.iter().zip(content).filter_map(end).collect();
    }

    /// Returns the files, each with the time until which its certificate is valid, in milliseconds
    /// since 1970.
    pub fn ends(&self) -> Vec<(PathBuf, u64)> {
        self.0.lock().clone()
    }

    /// Returns a warning for each certificate that has ended, or ends soon.
    pub fn warnings(&self, now_ms: u64) -> Vec<String> {
        let warning = |(file, end_ms): (PathBuf, u64)| {
            let file = file.display();
            let left_ms = end_ms.checked_sub(now_ms);
            match left_ms {
                None => {
                    let days = days(now_ms - end_ms);
                    Some(format!(
                        "the certificate in {file} has ended {days} ago: clients refuse it; replace \
                         the file"
                    ))
                }
                Some(left) if left < SOON_MS => Some(format!(
                    "the certificate in {file} ends in {}: replace the file",
                    days(left)
                )),
                Some(_) => None,
            }
        };
        self.ends().into_iter().filter_map(warning).collect()
    }
}

fn days(millis: u64) -> String {
    match millis / DAY_MS {
        1 => "1 day".into(),
        days => format!("{days} days"),
    }
}

/// Returns warnings about the certificates that the settings name, if their files can be read.
pub fn warnings(settings: &Settings, now_ms: u64) -> Vec<String> {
    let files = settings.tls.as_ref().map(|tls| &tls.certificates[..]);
    let files = files.unwrap_or_default();
    let content = read(files).unwrap_or_default();
    InUse::of(files, &content).warnings(now_ms)
}

/// Loads the certificates that the settings name. Makes one if the settings ask for it.
///
/// # Errors
/// A text for the operator.
pub fn load(settings: &Settings) -> Result<Option<Loaded>, String> {
    let Some(configured) = &settings.tls else {
        return Ok(None);
    };
    if configured.self_signed {
        make(settings, configured)?;
    }
    let content = read(&configured.certificates)?;
    let tls = Tls::new(parse(&content)?);
    if let Some(acme) = &settings.acme {
        tls.use_placeholder(placeholder(&acme.domains)?);
    }
    Ok(Some(Loaded {
        tls,
        in_use: InUse::of(&configured.certificates, &content),
        content,
    }))
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

/// Uses changed files as soon as they are whole and fit. Warns once a day of certificates that end.
pub async fn watch(files: Vec<CertificateFiles>, loaded: Loaded, clock: Arc<dyn WallClock>) {
    let (tls, in_use, mut last) = (loaded.tls, loaded.in_use, loaded.content);
    let mut warned = None;
    loop {
        let now_ms = clock.now_millis();
        if warned.replace(now_ms / DAY_MS) != Some(now_ms / DAY_MS) {
            for warning in in_use.warnings(now_ms) {
                tracing::warn!("{warning}");
            }
        }
        tokio::time::sleep(INTERVAL).await;
        let Some(content) = changed(&files, &last).await else {
            continue;
        };
        match parse(&content) {
            Ok(certificates) => {
                tls.replace(certificates);
                in_use.replace(&files, &content);
                warned = None;
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

    use super::{DAY_MS, InUse, changed, load, read};
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
        let loaded = load(&settings).unwrap().unwrap().content;
        assert!(changed(&files, &loaded).await.is_none());
        std::fs::remove_file(&files[0].chain).unwrap();
        files[0].make(&["localhost".into()]).unwrap();
        let now = changed(&files, &loaded).await.unwrap();
        assert!(changed(&files, &now).await.is_none());
    }

    /// Files are replaced by a person or a job, and either may forget it.
    #[test]
    fn certificates_that_have_ended_or_end_soon_are_warned_of() {
        let folder = tempfile::tempdir().unwrap();
        let files = vec![CertificateFiles::self_signed(folder.path())];
        let day = |day: i64| 1_767_225_600_000_u64.saturating_add_signed(day * DAY_MS as i64);
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2025, 1, 1);
        params.not_after = rcgen::date_time_ymd(2026, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        std::fs::write(&files[0].chain, params.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(&files[0].key, key.serialize_pem()).unwrap();
        std::fs::set_permissions(
            &files[0].key,
            std::os::unix::fs::PermissionsExt::from_mode(0o600),
        )
        .unwrap();
        let in_use = InUse::of(&files, &read(&files).unwrap());
        assert_eq!(in_use.ends(), [(files[0].chain.clone(), day(0))]);
        assert_eq!(in_use.warnings(day(-15)), Vec::<String>::new());
        assert!(in_use.warnings(day(-3))[0].contains("ends in 3 days"));
        assert!(in_use.warnings(day(5))[0].contains("has ended 5 days ago"));
        std::fs::remove_file(&files[0].chain).unwrap();
        files[0].make(&["localhost".into()]).unwrap();
        in_use.replace(&files, &read(&files).unwrap());
        assert_eq!(in_use.warnings(day(5)), Vec::<String>::new());
    }

    #[test]
    fn interval_is_what_the_settings_promise() {
        assert_eq!(super::INTERVAL, Duration::from_secs(10));
        assert!(config::EXAMPLE.contains("noticed within 10 seconds"));
    }
}
