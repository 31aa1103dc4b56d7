//! Writes a lifecycle configuration.

use archipel_model::{Expiration, Lifecycle, LifecycleFilter, LifecycleRule};

use crate::s3::respond;
use crate::s3::tagging;
use crate::s3::xml::Writer;

/// Writes a configuration as it was sent.
pub fn document(lifecycle: &Lifecycle) -> Writer {
    let mut xml = Writer::new("LifecycleConfiguration");
    for rule in &lifecycle.rules {
        xml.open("Rule");
        xml.text("ID", &rule.id);
        write_filter(&mut xml, &rule.filter);
        xml.text("Status", if rule.enabled { "Enabled" } else { "Disabled" });
        write_actions(&mut xml, rule);
        xml.close();
    }
    xml
}

fn write_filter(xml: &mut Writer, filter: &LifecycleFilter) {
    if filter.old_form {
        return xml.optional("Prefix", filter.prefix.as_deref());
    }
    xml.open("Filter");
    if filter.parts() > 1 {
        xml.open("And");
    }
    xml.optional("Prefix", filter.prefix.as_deref());
    filter
        .tags
        .iter()
        .for_each(|tag| tagging::write_tag(xml, tag));
    for (name, size) in [
        ("ObjectSizeGreaterThan", filter.larger_than),
        ("ObjectSizeLessThan", filter.smaller_than),
    ] {
        if let Some(size) = size {
            xml.value(name, size);
        }
    }
    if filter.parts() > 1 {
        xml.close();
    }
    xml.close();
}

fn write_actions(xml: &mut Writer, rule: &LifecycleRule) {
    if let Some(expiration) = rule.expiration {
        xml.open("Expiration");
        match expiration {
            Expiration::Days(days) => xml.value("Days", days),
            Expiration::Date(at_ms) => xml.text("Date", &respond::iso_time(at_ms)),
            Expiration::DeleteMarkers(on) => xml.value("ExpiredObjectDeleteMarker", on),
        }
        xml.close();
    }
    if let Some(noncurrent) = rule.noncurrent {
        xml.open("NoncurrentVersionExpiration");
        xml.value("NoncurrentDays", noncurrent.days);
        if let Some(keep) = noncurrent.keep {
            xml.value("NewerNoncurrentVersions", keep);
        }
        xml.close();
    }
    if let Some(days) = rule.abort_days {
        xml.open("AbortIncompleteMultipartUpload");
        xml.value("DaysAfterInitiation", days);
        xml.close();
    }
}
