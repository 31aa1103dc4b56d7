//! The log: structured lines on standard error, panics included.

use std::backtrace::Backtrace;
use std::io;
use std::panic;

use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};

/// Starts the log. Must be called once, before anything is logged.
///
/// # Errors
/// A text for the operator: the filter is invalid. The check of the settings reports that earlier.
pub fn start(log: &Log) -> Result<(), String> {
    let filter = EnvFilter::builder()
        .parse(&log.level)
        .map_err(|error| format!("log.level = {:?}: {error}", log.level))?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        // The library would panic if the reader of the log has gone. The server must go on.
        .log_internal_errors(false);
    match log.format {
        LogFormat::Text => lines
            .with_ansi(io::IsTerminal::is_terminal(&io::stderr()))
            .init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
    panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// Logs a panic and its place, because a panic ends one task and not the server.
fn log_panic(panic: &panic::PanicHookInfo<'_>) {
    let message = panic.payload_as_str().unwrap_or("no message");
    let location = panic
        .location()
        .map(ToString::to_string)
        .unwrap_or_default();
    let backtrace = Backtrace::force_capture();
    tracing::error!(panic = message, %location, %backtrace, "a task panicked: this is a defect");
}
