//! `archipel server` and `archipel config check`.

use std::path::{Path, PathBuf};

use archipel_base::clock::{SystemClock, WallClock};

use crate::cli::table;
use crate::cli::{CheckArgs, ServerArgs};
use crate::client::Failure;
use crate::config::{self, Loaded, MINIMAL};
use crate::node::{self, Node};
use crate::{certificates, logs, process};

/// The path of the configuration if no flag names one.
const USUAL_CONFIG: &str = "/etc/archipel/archipel.toml";

/// Runs a node until a stop signal.
pub fn run(args: &ServerArgs) -> Result<(), Failure> {
    process::keep_files_private();
    let loaded = load(args)?;
    let settings = loaded.settings;
    logs::start(&settings.log).map_err(Failure::new)?;
    warn_unknown(&loaded.unknown_variables);
    match process::raise_open_files() {
        Ok(limit) => tracing::debug!(limit, "open files"),
        Err(error) => tracing::warn!(%error, "cannot raise the limit of open files"),
    }
    node::runtime()?.block_on(async {
        let Some(node) = Node::start(settings).await.map_err(Failure::new)? else {
            return Ok(());
        };
        process::tell_ready();
        node.run_until_signal().await.map_err(Failure::new)
    })
}

/// Checks a configuration and reports its problems.
pub fn check(args: &CheckArgs) -> Result<(), Failure> {
    let loaded = load(&args.server)?;
    let unknown = &loaded.unknown_variables;
    let warnings = certificates::warnings(&loaded.settings, SystemClock.now_millis());
    if args.json {
        let told = serde_json::json!({
            "valid": true,
            "unknown_variables": unknown,
            "warnings": warnings,
        });
        return table::print_json(&told);
    }
    for warning in &warnings {
        table::text(&format!("warning: {warning}"))?;
    }
    for name in unknown {
        table::text(&format!(
            "warning: {name} is set, but there is no such setting"
        ))?;
    }
    table::text("the configuration is valid")
}

/// Reads the settings from the file that is named, or from the usual one, and from the environment.
///
/// # Errors
/// There is no file, or it is not valid.
pub fn load(args: &ServerArgs) -> Result<Loaded, Failure> {
    let path = match &args.config {
        Some(path) => path.clone(),
        None if Path::new(USUAL_CONFIG).exists() => PathBuf::from(USUAL_CONFIG),
        None => return Err(Failure::new(no_config())),
    };
    config::load(&path, std::env::vars()).map_err(|error| Failure::new(error.to_string()))
}

fn no_config() -> String {
    let indented: String = MINIMAL
        .lines()
        .map(|line| format!("    {line}\n"))
        .collect();
    format!(
        "no configuration: --config is not given, and there is no {USUAL_CONFIG}\n\
         fix: run archipel init, or write a file such as\n\n{indented}\n\
         and start with: archipel server --config FILE\n\
         `archipel config example` prints all settings; `archipel demo` needs none"
    )
}

fn warn_unknown(names: &[String]) {
    for name in names {
        tracing::warn!(
            variable = name,
            "this variable looks like a setting, but there is none of that name"
        );
    }
}
