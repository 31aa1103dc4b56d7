//! The name of a copy's source: `x-amz-copy-source`.

use super::uri;

/// The object that a request copies from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopySourceName {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// The version, if one is named.
    pub version: Option<String>,
}

impl CopySourceName {
    /// Reads `[/]bucket/key[?versionId=…]`, encoded as a form: a `+` is a space, as S3 has it.
    pub fn parse(text: &str) -> Option<CopySourceName> {
        let text = text.replace('+', "%20");
        let (path, version) = match text.split_once("?versionId=") {
            Some((path, version)) => (path, Some(uri::decode_path(version).ok()?)),
            None => (&*text, None),
        };
        // The slash between bucket and key may itself be encoded.
        let path = uri::decode_path(path).ok()?;
        let path = path.strip_prefix('/').unwrap_or(&path);
        let (bucket, key) = path.split_once('/')?;
        let complete = !bucket.is_empty() && !key.is_empty();
        complete.then(|| CopySourceName {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            version,
        })
    }
}
