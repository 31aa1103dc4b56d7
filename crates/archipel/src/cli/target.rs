//! The server that a command talks to: the one on the local socket unless flags name another.

use std::path::{Path, PathBuf};

use clap::Args;

use super::terminal;
use crate::client::{Client, Failure};
use crate::config::{self, ADMIN_SOCKET};

/// The data folders that are tried when no flag names one: a server's, and the first node of a demo
/// with one node and with several.
const USUAL_DATA_DIRS: [&str; 3] = ["/var/lib/archipel", "demo-data", "demo-data/node1"];

/// The configuration files that are tried after them.
const USUAL_CONFIGS: [&str; 2] = ["archipel.toml", "/etc/archipel/archipel.toml"];

/// The heading of the options that all commands of a group have: help shows a command's own ones
/// first.
pub const GLOBAL: &str = "Global options";

/// Returns the admin socket that a configuration names.
fn socket_in(config: &Path) -> Result<PathBuf, Failure> {
    let loaded = config::load(config, std::env::vars());
    let loaded = loaded.map_err(|error| Failure::new(error.to_string()))?;
    Ok(loaded.settings.admin.socket)
}

/// The server to talk to.
#[derive(Args)]
pub struct Target {
    /// The address of the admin API, such as http://127.0.0.1:3903, instead of the local socket
    #[arg(
        long,
        env = "ARCHIPEL_ADMIN_URL",
        hide_env_values = true,
        value_name = "URL",
        global = true,
        help_heading = GLOBAL
    )]
    pub admin: Option<String>,
    /// A file with the token for --admin (or set ARCHIPEL_ADMIN_TOKEN)
    #[arg(
        long,
        env = "ARCHIPEL_ADMIN_TOKEN_FILE",
        hide_env_values = true,
        value_name = "FILE",
        global = true,
        help_heading = GLOBAL
    )]
    pub token_file: Option<PathBuf>,
    /// The server's data folder; the admin socket in it is used
    #[arg(
        long,
        env = "ARCHIPEL_DATA_DIR",
        hide_env_values = true,
        value_name = "FOLDER",
        global = true,
        help_heading = GLOBAL
    )]
    pub data_dir: Option<PathBuf>,
    /// The path of the admin socket
    #[arg(
        long,
        env = "ARCHIPEL_ADMIN_SOCKET",
        hide_env_values = true,
        value_name = "FILE",
        global = true,
        help_heading = GLOBAL
    )]
    pub socket: Option<PathBuf>,
    /// The server's configuration file, which names the admin socket
    #[arg(
        long,
        short,
        env = "ARCHIPEL_CONFIG",
        hide_env_values = true,
        value_name = "FILE",
        global = true,
        help_heading = GLOBAL
    )]
    pub config: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub json: bool,
    /// Print results and errors only: no progress, no confirmations
    #[arg(long, short, global = true, help_heading = GLOBAL)]
    pub quiet: bool,
}

impl Target {
    /// Returns a client of the server.
    pub fn client(&self) -> Result<Client, Failure> {
        terminal::be_quiet_if_asked(self.quiet, self.json);
        match &self.admin {
            Some(url) => Client::tcp(url, &self.token()?),
            None => Ok(Client::socket(self.socket_path()?)),
        }
    }

    /// Returns the socket path from the first of the flags or variables above that is given.
    fn socket_path(&self) -> Result<PathBuf, Failure> {
        if let Some(socket) = &self.socket {
            return Ok(socket.clone());
        }
        if let Some(dir) = &self.data_dir {
            return Ok(dir.join(ADMIN_SOCKET));
        }
        if let Some(config) = &self.config {
            return socket_in(config);
        }
        let sockets = USUAL_DATA_DIRS.map(|dir| Path::new(dir).join(ADMIN_SOCKET));
        if let Some(socket) = sockets.iter().find(|socket| socket.exists()) {
            return Ok(socket.clone());
        }
        if let Some(config) = USUAL_CONFIGS.iter().find(|file| Path::new(file).exists()) {
            return socket_in(Path::new(config));
        }
        let sockets = sockets.map(|socket| socket.display().to_string());
        Err(Failure::no_server(format!(
            "no server found: there is no {}, and no configuration {}\n\
             fix: name it with --data-dir, --socket, --config or --admin",
            sockets.join(", "),
            USUAL_CONFIGS.join(" or ")
        )))
    }

    fn token(&self) -> Result<String, Failure> {
        if let Some(path) = &self.token_file {
            let token = config::secret::read_token(path, config::secret::MIN_TOKEN_CHARS);
            return token
                .map(|token| token.expose().to_owned())
                .map_err(|refused| {
                    Failure::new(format!(
                        "{}: {}; fix: {}",
                        path.display(),
                        refused.why,
                        refused.fix
                    ))
                });
        }
        std::env::var("ARCHIPEL_ADMIN_TOKEN").map_err(|_| {
            Failure::new(
                "--admin needs a token: give --token-file or set ARCHIPEL_ADMIN_TOKEN".into(),
            )
        })
    }
}
