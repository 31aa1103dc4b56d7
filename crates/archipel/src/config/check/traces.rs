//! The check of `[traces]`.

use std::path::Path;

use http::{HeaderMap, HeaderName, HeaderValue, Uri};

use super::Check;
use super::event_targets::shown;
use crate::config::{Traces, file, secret};

/// The share of requests that are sampled if the settings name none.
const SAMPLE: f64 = 0.01;

/// The path of spans below the address of a collector: OTLP over HTTP.
const PATH: &str = "/v1/traces";

impl Check {
    pub(super) fn traces(&mut self, traces: &file::Traces) -> Option<Traces> {
        let sample = traces.sample.unwrap_or(SAMPLE);
        if !(0.0..=1.0).contains(&sample) {
            let fix = "a number from 0 to 1, such as 0.01 for one request of a hundred";
            self.problem(
                "traces.sample",
                Some(sample.to_string()),
                "not a share",
                fix,
            );
        }
        if let Some(path) = &traces.ca_file
            && let Err(error) = std::fs::File::open(path)
        {
            let fix = "check that the file exists and that the server's user may read it";
            let (path, why) = (path.display().to_string(), error.to_string());
            self.problem("traces.ca_file", Some(path), &why, fix);
        }
        let headers = traces.headers_file.as_deref();
        let headers = headers.map(|path| self.trace_headers(path));
        let address = self.collector(traces.endpoint.as_deref()?)?;
        Some(Traces {
            address,
            sample,
            trust_clients: traces.trust_clients.unwrap_or(false),
            ca_file: traces.ca_file.clone(),
            headers: headers.unwrap_or_default(),
        })
    }

    fn collector(&mut self, endpoint: &str) -> Option<Uri> {
        let parsed = endpoint.parse::<Uri>().ok().filter(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.query().is_none()
                && uri.authority().is_some_and(|at| !at.as_str().contains('@'))
        });
        if parsed.is_none() {
            let fix = "write for example \"http://127.0.0.1:4318\"; a token has a file of its own, headers_file";
            let why = "not an address that begins with http:// or https://";
            self.problem("traces.endpoint", Some(shown(endpoint)), why, fix);
        }
        parsed?;
        format!("{}{PATH}", endpoint.trim_end_matches('/'))
            .parse()
            .ok()
    }

    fn trace_headers(&mut self, path: &Path) -> HeaderMap {
        const KEY: &str = "traces.headers_file";
        let shown = || Some(path.display().to_string());
        let text = match secret::read_text(path) {
            Ok(text) => text,
            Err(refused) => {
                self.problem(KEY, shown(), &refused.why, &refused.fix);
                return HeaderMap::new();
            }
        };
        headers(text.expose()).unwrap_or_else(|line| {
            // Not the line itself, which may be a secret.
            let why = format!("line {line} is not a header");
            let fix = "write each on a line, such as: Authorization: Bearer ...";
            self.problem(KEY, shown(), &why, fix);
            HeaderMap::new()
        })
    }
}

/// Reads headers, one a line.
///
/// # Errors
/// The number of the first line that is none.
fn headers(text: &str) -> Result<HeaderMap, usize> {
    let mut headers = HeaderMap::new();
    for (number, line) in (1_usize..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let (name, value) = line.split_once(':').ok_or(number)?;
        let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| number)?;
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| number)?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests;
