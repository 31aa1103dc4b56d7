//! The contents of a bucket: incomplete uploads, and single objects.

use archipel_api::admin::types::{AbortUploads, AbortedUploads, ObjectInfo, UploadInfo};

use super::progress::waiting;
use super::table;
use super::target::Target;
use crate::client::{Client, Failure, path, query};
use crate::config::size;

/// Lists the incomplete uploads of a bucket, or those of keys with a prefix.
pub async fn uploads(
    target: &Target,
    client: &Client,
    bucket: &str,
    prefix: Option<&str>,
) -> Result<(), Failure> {
    let route = path(&["v1", "buckets", bucket, "uploads"]);
    let route = query(&route, &[("prefix", prefix)]);
    let uploads: Vec<UploadInfo> = client.list(&route).await?;
    table::list(target, ["UPLOAD", "AGE", "BY", "KEY"], &uploads, |one| {
        let by = one.initiator.clone().unwrap_or("-".into());
        let age = table::age(one.initiated_ms);
        [one.id.clone(), age, by, one.key.clone()]
    })
}

/// Aborts old uploads of a bucket, or counts them.
pub async fn abort(
    target: &Target,
    client: &Client,
    bucket: &str,
    ask: AbortUploads,
) -> Result<(), Failure> {
    let route = path(&["v1", "buckets", bucket, "uploads", "abort"]);
    let what = format!("aborting uploads of {bucket}");
    let told: AbortedUploads = waiting(&what, all(client, &route, &ask)).await?;
    if target.json {
        return table::print_json(&told);
    }
    let what = match (told.done, told.uploads) {
        (true, 1) => "was aborted",
        (true, _) => "were aborted",
        (false, _) => "would be aborted",
    };
    let more = match told.more {
        true => ", at least",
        false => "",
    };
    let uploads = table::count(told.uploads, "upload");
    table::text(&format!("{uploads} {what}{more}"))
}

/// Repeats the request, which aborts a bounded number of uploads, until none is left.
async fn all(client: &Client, route: &str, ask: &AbortUploads) -> Result<AbortedUploads, Failure> {
    let mut told: AbortedUploads = client.post(route, ask).await?;
    while told.done && told.more {
        let next: AbortedUploads = client.post(route, ask).await?;
        let stays = next.uploads == 0;
        told.uploads += next.uploads;
        told.keys.extend(next.keys);
        told.more = next.more;
        if stays {
            break;
        }
    }
    Ok(told)
}

/// Shows the metadata of an object.
pub async fn object(
    target: &Target,
    client: &Client,
    bucket: &str,
    key: &str,
) -> Result<(), Failure> {
    let route = path(&["v1", "buckets", bucket, "object"]);
    let route = query(&route, &[("key", Some(key))]);
    let object: ObjectInfo = client.get(&route).await?;
    if target.json {
        return table::print_json(&object);
    }
    table::print_pairs(&[
        ("object", format!("{}/{}", object.bucket, object.key)),
        ("version", object.version),
        ("size", size::show(object.bytes)),
        ("etag", object.etag),
        ("age", table::age(object.modified_ms)),
        ("parts", object.parts.to_string()),
    ])?;
    let pairs = object.headers.iter().map(|pair| ("header", pair));
    let pairs = pairs.chain(object.tags.iter().map(|pair| ("tag", pair)));
    let rows: Vec<[String; 3]> = pairs
        .map(|(kind, pair)| [kind.to_owned(), pair.name.clone(), pair.value.clone()])
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    table::text("")?;
    table::print(["KIND", "NAME", "VALUE"], &rows)
}
