//! The log: structured lines on standard error, panics included.

use std::backtrace::Backtrace;
use std::io;
use std::panic;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

use crate::config::{Log, LogFormat};

/// Directives that come before those of the operator, who may say otherwise. These libraries log
/// messages whole, or what happens to connections. Failures are in the log without them.
const QUIET: &str = "lapin=error,rskafka=error,async_nats=error";

/// Starts the log. Must be called once, before anything is logged.
///
/// # Errors
/// A text for the operator: the filter is invalid. The check of the settings reports that earlier.
pub fn start(log: &Log) -> Result<(), String> {
    let filter =
        filter(&log.level).map_err(|error| format!("log.level = {:?}: {error}", log.level))?;
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

fn filter(level: &str) -> Result<EnvFilter, ParseError> {
    EnvFilter::builder().parse(format!("{QUIET},{level}"))
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

#[cfg(test)]
mod tests {
    use tracing::Level;
    use tracing::subscriber::with_default;
    use tracing_subscriber::Registry;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// Returns whether warnings of lapin, of rskafka and of the server itself are logged.
    fn logged(level: &str) -> [bool; 3] {
        with_default(Registry::default().with(filter(level).unwrap()), || {
            [
                tracing::enabled!(target: "lapin::returned_messages", Level::WARN),
                tracing::enabled!(target: "rskafka::connection", Level::WARN),
                tracing::enabled!(target: "archipel::events", Level::WARN),
            ]
        })
    }

    #[test]
    fn messages_of_libraries_stay_out_unless_the_operator_asks() {
        assert_eq!(logged("info"), [false, false, true]);
        assert_eq!(logged("debug"), [false, false, true]);
        assert_eq!(logged("error"), [false, false, false]);
        assert_eq!(logged("info,lapin=debug"), [true, false, true]);
        assert!(filter("archipel=loud").is_err());
    }
}
