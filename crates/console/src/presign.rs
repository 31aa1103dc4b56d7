//! Signs requests in their query (AWS Signature Version 4), as links that others can follow.

use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ring::digest::{SHA256, digest};
use ring::hmac;
use time::OffsetDateTime;
use time::macros::format_description;

use crate::backend::encode;

/// The characters of a path that are encoded.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');

/// A signer: an access key, a region and a time.
pub struct Presigner<'a> {
    pub access_key: &'a str,
    pub secret: &'a str,
    pub region: &'a str,
    pub now_ms: u64,
}

/// A request to sign.
pub struct Target<'a> {
    pub method: &'a Method,
    pub host: &'a str,
    pub bucket: &'a str,
    /// The object's key; none for the bucket itself.
    pub key: Option<&'a str>,
    pub query: &'a [(&'a str, &'a str)],
    /// The headers that are signed besides `host`: lower case, in order of their names.
    pub headers: &'a [(&'a str, &'a str)],
}

impl Presigner<'_> {
    /// Returns path and query, signed for so many seconds.
    pub fn sign(&self, target: &Target<'_>, seconds: u64) -> String {
        let (day, at) = self.times();
        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let credential = format!("{}/{scope}", self.access_key);
        let seconds = seconds.to_string();
        let names: String = target.headers.iter().map(|h| format!(";{}", h.0)).collect();
        let names = format!("host{names}");
        let mut pairs = vec![
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", &credential),
            ("X-Amz-Date", &at),
            ("X-Amz-Expires", &seconds),
            ("X-Amz-SignedHeaders", &names),
        ];
        pairs.extend(target.query);
        let mut pairs: Vec<String> = pairs
            .iter()
            .map(|(name, value)| format!("{}={}", encode(name), encode(value)))
            .collect();
        pairs.sort();
        let query = pairs.join("&");
        let path = match target.key {
            None => format!("/{}", encode(target.bucket)),
            Some(key) => {
                let key = utf8_percent_encode(key, PATH);
                format!("/{}/{key}", encode(target.bucket))
            }
        };
        let (method, host) = (target.method, target.host);
        let headers = target.headers.iter();
        let headers: String = headers.map(|h| format!("{}:{}\n", h.0, h.1)).collect();
        let canonical =
            format!("{method}\n{path}\n{query}\nhost:{host}\n{headers}\n{names}\nUNSIGNED-PAYLOAD");
        let hash = hex::encode(digest(&SHA256, canonical.as_bytes()));
        let text = format!("AWS4-HMAC-SHA256\n{at}\n{scope}\n{hash}");
        let signature = hex::encode(mac(&self.signing_key(&day), text.as_bytes()));
        format!("{path}?{query}&X-Amz-Signature={signature}")
    }

    fn times(&self) -> (String, String) {
        let seconds = (self.now_ms / 1000) as i64;
        let now = OffsetDateTime::from_unix_timestamp(seconds);
        let now = now.unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let day = now.format(format_description!("[year][month][day]"));
        let at = now.format(format_description!(
            "[year][month][day]T[hour][minute][second]Z"
        ));
        (day.unwrap_or_default(), at.unwrap_or_default())
    }

    fn signing_key(&self, day: &str) -> Vec<u8> {
        let first = format!("AWS4{}", self.secret);
        let parts = [day, self.region, "s3", "aws4_request"];
        parts
            .iter()
            .fold(first.into_bytes(), |key, part| mac(&key, part.as_bytes()))
    }
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text).as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of AWS's page "Authenticating Requests: Using Query Parameters", in path style.
    #[test]
    fn links_are_signed_as_aws_documents() {
        let signer = Presigner {
            access_key: "AKIAIOSFODNN7EXAMPLE",
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            region: "us-east-1",
            now_ms: 1_369_353_600_000,
        };
        let target = Target {
            method: &Method::GET,
            host: "examplebucket.s3.amazonaws.com",
            bucket: "test.txt",
            key: None,
            query: &[],
            headers: &[],
        };
        let signed = signer.sign(&target, 86400);
        let expected = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
        assert!(signed.ends_with(expected), "{signed}");
    }
}
