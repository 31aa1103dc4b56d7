//! The arguments of `archipel server`, `demo` and `config`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `archipel server`
#[derive(Args)]
pub struct ServerArgs {
    /// The configuration file
    #[arg(
        long,
        short,
        env = "ARCHIPEL_CONFIG",
        hide_env_values = true,
        value_name = "FILE"
    )]
    pub config: Option<PathBuf>,
}

/// `archipel config check`
#[derive(Args)]
pub struct CheckArgs {
    /// The server.
    #[command(flatten)]
    pub server: ServerArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `archipel demo`
#[derive(Args)]
pub struct DemoArgs {
    /// The folder for the data; an earlier demo's data is used again
    #[arg(long, default_value = "demo-data", value_name = "FOLDER")]
    pub dir: PathBuf,
    /// The port for S3 on 127.0.0.1. Further nodes take the next ports. Websites are 100 ports
    /// above, K2V 200, the console 300. 0 takes free ones
    #[arg(long, default_value_t = 3900)]
    pub port: u16,
    /// The number of nodes, each in a zone of its own. One node runs in this process itself
    #[arg(long, default_value_t = 3)]
    pub nodes: u32,
    /// Print one line of JSON once the node is ready, for scripts
    #[arg(long)]
    pub json: bool,
}

/// `archipel config`
#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Check a configuration and show its problems
    Check(CheckArgs),
    /// Print all settings with their defaults and comments
    Example,
}
