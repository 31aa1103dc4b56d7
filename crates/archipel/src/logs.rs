//! The log: structured lines on standard error, and panics among them.

use std::backtrace::Backtrace;
use std::io;
use std::panic;

use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};

/// Starts the log. To be called once, before anything worth logging happens.
///
/// # Errors
/// A text for the operator: the filter makes no sense (the check of the settings has said so before).
pub fn start(log: &Log) -> Result<(), String> {
    let filter = EnvFilter::builder()
        .parse(&log.level)
        .map_err(|error| format!("log.level = {:?}: {error}", log.level))?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        // A log that nobody reads any more must not end the server (the library would panic).
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

/// A panic ends one task, not the server; the log must say that it happened, and where.
fn log_panic(panic: &panic::PanicHookInfo<'_>) {
    let message = panic
        .payload_as_str()
        .unwrap_or("a panic without a message");
    let location = panic
        .location()
        .map(ToString::to_string)
        .unwrap_or_default();
    let backtrace = Backtrace::force_capture();
    tracing::error!(panic = message, %location, %backtrace, "a task panicked: this is a defect");
}
