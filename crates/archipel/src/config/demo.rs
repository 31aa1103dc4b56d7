//! The settings of `archipel demo`.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::{Settings, check, file};

/// Returns the settings of `archipel demo`: everything in one folder, with S3, websites, K2V,
/// the console and the local socket only.
pub fn for_demo(
    data_dir: PathBuf,
    listen: SocketAddr,
    web: SocketAddr,
    k2v: SocketAddr,
    console: SocketAddr,
) -> Settings {
    let file = file::File {
        data_dir: Some(data_dir),
        s3: file::S3 {
            listen: Some(listen.to_string()),
            // This allows virtual-host style: browsers and many resolvers map `*.localhost` to
            // loopback.
            base_domains: vec!["localhost".into()],
            ..file::S3::default()
        },
        web: file::Web {
            listen: Some(web.to_string()),
            root_domain: Some("localhost".into()),
        },
        k2v: file::K2v {
            listen: Some(k2v.to_string()),
            ..file::K2v::default()
        },
        console: file::Console {
            listen: Some(console.to_string()),
            ..file::Console::default()
        },
        log: file::Log {
            level: Some("warn".into()),
            ..file::Log::default()
        },
        limits: file::Limits {
            shutdown_seconds: Some(10),
            ..file::Limits::default()
        },
        ..file::File::default()
    };
    // A test shows that the check accepts these values.
    check::settings(&file, None).expect("the demo's settings are valid")
}

#[cfg(test)]
mod tests {
    use archipel_storage::engine::Durability;

    use super::*;

    #[test]
    fn demo_has_valid_settings() {
        let listen = "127.0.0.1:0".parse().unwrap();
        let settings = for_demo("/d".into(), listen, listen, listen, listen);
        assert_eq!(settings.s3.listen, listen);
        assert_eq!(settings.durability, Durability::Fsync);
    }
}
