//! Events as JSON: the records that targets and listeners get.
//!
//! Source: AWS, "Event message structure".

use archipel_access::bucket_arn;
use archipel_model::Event;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::owner::Owner;
use crate::times::iso_time;

/// The bytes of a key that are escaped for a target.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'*')
    .remove(b'/');

/// The ETag of no content: its MD5.
const EMPTY_ETAG: &str = "d41d8cd98f00b204e9800998ecf8427e";

/// Those that are escaped for a listener. `mc` takes a key for an escaped one only if it finds an
/// escaped slash.
const ESCAPED_WITH_SLASHES: &AsciiSet = &ESCAPED.add(b'/');

/// Returns the record of an event that a target gets.
pub fn for_target(event: &Event, region: &str) -> Value {
    let name = event.name.strip_prefix("s3:").unwrap_or(&event.name);
    let principal = event.principal.as_deref();
    record(event, region, name, principal, ESCAPED)
}

/// Returns the record of an event that a listener gets, as clients of MinIO read it: they look for
/// `s3:` in front of the name. `principal` names the principal of the event: readers of a bucket
/// must not learn the ids of access keys.
pub fn for_listener(event: &Event, region: &str, principal: Option<&str>) -> Value {
    record(event, region, &event.name, principal, ESCAPED_WITH_SLASHES)
}

fn record(
    event: &Event,
    region: &str,
    name: &str,
    principal: Option<&str>,
    escaped: &'static AsciiSet,
) -> Value {
    let owner = match &event.owner {
        Some(id) => Owner::of_key(id),
        None => Owner::of_key(&event.bucket_id.to_string()),
    };
    let mut object = json!({
        "key": utf8_percent_encode(&event.key, escaped).to_string().replace("%20", "+"),
        "sequencer": event.sequencer,
    });
    if let Some(size) = event.size {
        object["size"] = size.into();
    }
    // To AWS a delete marker is an object without content.
    let is_marker = name.ends_with("DeleteMarkerCreated");
    let of_marker = is_marker.then_some(EMPTY_ETAG);
    if let Some(etag) = event.etag.as_deref().or(of_marker) {
        object["eTag"] = etag.into();
    }
    if let Some(version) = &event.version {
        object["versionId"] = version.as_str().into();
    }
    json!({
        "eventVersion": "2.3",
        "eventSource": "aws:s3",
        "awsRegion": region,
        "eventTime": iso_time(event.time_ms),
        "eventName": name,
        "userIdentity": { "principalId": principal.unwrap_or("anonymous") },
        "requestParameters": { "sourceIPAddress": event.address.as_deref().unwrap_or("") },
        "responseElements": { "x-amz-request-id": event.request_id, "x-amz-id-2": event.host_id },
        "s3": {
            "s3SchemaVersion": "1.0",
            "configurationId": event.rule,
            "bucket": {
                "name": event.bucket,
                "ownerIdentity": { "principalId": owner.id() },
                "arn": bucket_arn(&event.bucket),
            },
            "object": object,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delete_marker_has_the_etag_of_no_content() {
        for (name, etag) in [
            ("s3:ObjectRemoved:DeleteMarkerCreated", json!(EMPTY_ETAG)),
            ("s3:ObjectRemoved:Delete", Value::Null),
        ] {
            let event = Event {
                name: name.into(),
                ..Event::default()
            };
            assert_eq!(for_target(&event, "r")["s3"]["object"]["eTag"], etag);
        }
    }

    #[test]
    fn record_names_the_request_and_the_process_that_answered_it() {
        let event = Event {
            request_id: "R1".into(),
            host_id: "H1".into(),
            ..Event::default()
        };
        let answered = json!({ "x-amz-request-id": "R1", "x-amz-id-2": "H1" });
        assert_eq!(for_target(&event, "r")["responseElements"], answered);
    }

    #[test]
    fn listeners_see_names_and_keys_as_clients_of_minio_expect_them() {
        let event = Event {
            name: "s3:ObjectCreated:Put".into(),
            key: "a b/\u{fc}".into(),
            principal: Some("AK1".into()),
            ..Event::default()
        };
        let (hook, listener) = (
            for_target(&event, "r"),
            for_listener(&event, "r", Some("id")),
        );
        assert_eq!(hook["eventName"], "ObjectCreated:Put");
        assert_eq!(hook["s3"]["object"]["key"], "a+b/%C3%BC");
        assert_eq!(listener["eventName"], "s3:ObjectCreated:Put");
        assert_eq!(listener["s3"]["object"]["key"], "a+b%2F%C3%BC");
        assert_eq!(hook["userIdentity"]["principalId"], "AK1");
        assert_eq!(listener["userIdentity"]["principalId"], "id");
    }
}
