//! The arguments of `archipel init`.

use std::path::PathBuf;

use clap::Args;

/// `archipel init`
#[derive(Args)]
pub struct InitArgs {
    /// The configuration file to write. The secrets are written beside it
    #[arg(
        long,
        short,
        value_name = "FILE",
        default_value = "/etc/archipel/archipel.toml"
    )]
    pub config: PathBuf,
    /// Ask nothing: what no flag says has its default
    #[arg(long)]
    pub non_interactive: bool,
    /// The folder for the data [default: /var/lib/archipel]
    #[arg(long, value_name = "FOLDER")]
    pub data_dir: Option<String>,
    /// The address for S3 clients [default: 127.0.0.1:3900]
    #[arg(long, value_name = "ADDRESS")]
    pub s3_listen: Option<String>,
    /// The address of the web console; "none" for no console [default: 127.0.0.1:3905]
    #[arg(long, value_name = "ADDRESS")]
    pub console_listen: Option<String>,
    /// The first bucket; "none" for no bucket [default: none]
    #[arg(long, value_name = "NAME")]
    pub bucket: Option<String>,
    /// The number of nodes that begin together [default: 1]
    #[arg(long, value_name = "NUMBER")]
    pub nodes: Option<u16>,
    /// With several nodes: the address at which the others reach this one, as host:port
    #[arg(long, value_name = "HOST:PORT")]
    pub address: Option<String>,
    /// With several nodes: the addresses of the others, or where they are looked up, such as
    /// dns://nodes.example.org:3901
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub others: Vec<String>,
    /// With several nodes: the site of this one [default: local]
    #[arg(long, value_name = "NAME")]
    pub zone: Option<String>,
    /// On the second and further machines: the access key that the first one printed. The secrets
    /// of the first one must be there already
    #[arg(long, value_name = "ID")]
    pub access_key: Option<String>,
    /// Print JSON instead of what to do next. Questions go to standard error
    #[arg(long)]
    pub json: bool,
}
