//! Keys as names in folders, and links to them.

use crate::backend::query;

/// Returns the bucket and the folders down to one with this prefix, each with its name and its link.
pub fn crumbs(bucket: &str, prefix: &str, link: impl Fn(&str) -> String) -> Vec<(String, String)> {
    let mut crumbs = vec![(bucket.to_owned(), link(""))];
    let mut end = 0;
    for part in prefix.split_inclusive('/') {
        end += part.len();
        crumbs.push((part.to_owned(), link(&prefix[..end])));
    }
    crumbs
}

/// Returns the name of an object or a folder in the folder with this prefix.
pub fn below<'a>(prefix: &str, key: &'a str) -> &'a str {
    match key.strip_prefix(prefix).unwrap_or(key) {
        "" => "(this folder)",
        name => name,
    }
}

/// Returns the prefix of a key's folder.
pub fn folder_of(key: &str) -> &str {
    let end = key.trim_end_matches('/').rfind('/');
    end.map_or("", |end| &key[..=end])
}

/// Returns the path of something about an object.
pub fn about(base: &str, what: &str, object: &str, key: &str) -> String {
    format!("{base}/{what}{}", query(&[("o", object), ("k", key)]))
}
