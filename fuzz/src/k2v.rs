//! Requests to K2V. The server never answers 500, and never panics.
use crate::Source;
use crate::endpoints::{Service, Unsigned, check, on_endpoints};
use bytes::Bytes;

/// Parameters in the order of their names, as a signature has them.
const PARAMETERS: &[&str] = &[
    "causality_token",
    "delete",
    "end",
    "limit",
    "poll_range",
    "prefix",
    "reverse",
    "search",
    "sort_key",
    "start",
    "timeout",
];
const VALUES: &[&str] = &["", "", "a", "b", "1", "0", "-1", "true", "2000000000"];
const ACCEPTS: [&str; 5] = [
    "*/*",
    "application/json",
    "application/octet-stream",
    "text/html",
    "",
];

fn request(mut source: Source<'_>, token: Option<&str>) -> Unsigned {
    let method = *source.pick(&["GET", "PUT", "POST", "DELETE", "SEARCH"]);
    let path = *source.pick(&["/bucket", "/bucket/p", "/bucket/p", "/other/p"]);
    let mut parameters: Vec<usize> = (0..source.byte() % 4)
        .map(|_| usize::from(source.byte()) % PARAMETERS.len())
        .collect();
    parameters.sort_unstable();
    parameters.dedup();
    let query = parameters.into_iter().map(|at| {
        let value = match (PARAMETERS[at], token, source.byte() % 4) {
            ("causality_token", Some(token), 1..) => token.to_owned(),
            (_, _, 0) => source
                .text(24)
                .chars()
                .filter(char::is_ascii_alphanumeric)
                .collect(),
            _ => (*source.pick(VALUES)).to_owned(),
        };
        format!("{}={value}", PARAMETERS[at])
    });
    let query: Vec<String> = query.collect();
    let mut headers = vec![("accept".to_owned(), (*source.pick(&ACCEPTS)).to_owned())];
    let given = source.byte() % 3;
    let token = match (given, token) {
        (1, Some(token)) => Some(token.to_owned()),
        (2, _) => Some(
            source
                .text(48)
                .chars()
                .filter(|c| ('!'..='~').contains(c))
                .collect(),
        ),
        _ => None,
    };
    headers.extend(token.map(|token| ("x-garage-causality-token".to_owned(), token)));
    Unsigned {
        service: Service::K2v,
        method: method.into(),
        path: path.into(),
        query: query.join("&"),
        headers,
        body: Bytes::copy_from_slice(source.rest()),
    }
}

/// Runs one input.
pub fn run(bytes: &[u8]) {
    on_endpoints(async |endpoints| {
        let read = Unsigned {
            service: Service::K2v,
            method: "GET".into(),
            path: "/bucket/p".into(),
            query: "sort_key=a".into(),
            headers: Vec::new(),
            body: Bytes::new(),
        };
        let known = endpoints.send(read).await;
        let token = known
            .as_ref()
            .and_then(|reply| reply.headers.get("x-garage-causality-token"));
        let token = token.and_then(|token| token.to_str().ok());
        if let Some(reply) = endpoints.send(request(Source::new(bytes), token)).await {
            check(&reply);
        }
    });
}
