//! A page of a listing of uploads.

use crate::upload::{Upload, UploadPage, UploadQuery};

/// Returns the common prefix that a key is rolled up to.
fn rolled_up<'k>(key: &'k str, query: &UploadQuery) -> Option<&'k str> {
    let delimiter = query.delimiter.as_deref().filter(|d| !d.is_empty())?;
    let at = key[query.prefix.len()..].find(delimiter)?;
    Some(&key[..query.prefix.len() + at + delimiter.len()])
}

/// Returns the page of sorted uploads that a query asks for.
pub fn of(sorted: Vec<Upload>, query: &UploadQuery) -> UploadPage {
    let mut page = UploadPage::default();
    for upload in sorted {
        let prefix = rolled_up(&upload.key, query);
        if !is_after(&upload, prefix, query) {
            continue;
        }
        if prefix.is_some() && page.prefixes.last().map(String::as_str) == prefix {
            continue;
        }
        if page.uploads.len() + page.prefixes.len() >= query.limit {
            page.truncated = true;
            break;
        }
        match prefix {
            Some(prefix) => page.prefixes.push(prefix.to_owned()),
            None => page.uploads.push(upload),
        }
    }
    page
}

fn is_after(upload: &Upload, prefix: Option<&str>, query: &UploadQuery) -> bool {
    let Some(after) = query.after_key.as_deref() else {
        return true;
    };
    match (prefix, query.after_id) {
        (Some(prefix), _) => prefix > after,
        (None, Some(id)) => (upload.key.as_str(), upload.id) > (after, id),
        (None, None) => upload.key.as_str() > after,
    }
}
