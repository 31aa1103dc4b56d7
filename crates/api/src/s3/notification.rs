//! A bucket's event notifications as a document.
//!
//! Source: AWS, "PutBucketNotificationConfiguration" and "Event notification types and
//! destinations".

use archipel_model::notification::is_event_name;
use archipel_model::{EventTarget, Notification, NotificationKind, NotificationRule};

use super::error::{Code, S3Error, S3Result};
use super::xml::{self, Element, Writer};

/// The most rules of a configuration.
const MAX_RULES: usize = 100;
/// The longest name of a rule.
const MAX_ID_BYTES: usize = 255;
/// The longest text of a filter.
const MAX_FILTER_BYTES: usize = 1024;

/// The kinds of rules: the element, and its child that names the target.
const KINDS: [(&str, &str, NotificationKind); 3] = [
    ("TopicConfiguration", "Topic", NotificationKind::Topic),
    ("QueueConfiguration", "Queue", NotificationKind::Queue),
    (
        "CloudFunctionConfiguration",
        "CloudFunction",
        NotificationKind::Function,
    ),
];

/// Returns the address by which a configuration names a target.
pub fn arn(target: &EventTarget) -> String {
    format!("arn:archipel:events::{}:{}", target.name, target.kind)
}

fn argument<T>(name: &str, value: &str, why: &str) -> S3Result<T> {
    Err(S3Error::argument(name, value, why.to_owned()))
}

/// Reads a configuration and checks it; `None` if it has no rules. `known` finds a declared target,
/// `new_id` names rules without a name.
///
/// # Errors
/// [`Code::MalformedXML`], [`Code::InvalidArgument`]; [`Code::NotImplemented`] for EventBridge.
pub fn parse(
    document: &[u8],
    known: impl Fn(&str) -> Option<EventTarget>,
    new_id: impl Fn() -> String,
) -> S3Result<Option<Notification>> {
    let root = xml::parse(document, "NotificationConfiguration")?;
    let mut names: Vec<&str> = KINDS.iter().map(|(element, ..)| *element).collect();
    names.push("EventBridgeConfiguration");
    let children = root.only(&names)?;
    let mut rules = Vec::new();
    for child in children {
        let kind = KINDS.iter().find(|(element, ..)| *element == child.name);
        let Some((_, target, kind)) = kind else {
            return Err(S3Error::not_implemented(
                "Event notification to EventBridge",
            ));
        };
        rules.push(parse_rule(child, target, *kind, &known, &new_id)?);
    }
    if rules.len() > MAX_RULES {
        let why = "A bucket has at most 100 notification configurations";
        return argument("NotificationConfiguration", "", why);
    }
    let mut ids: Vec<&str> = rules.iter().map(|rule| rule.id.as_str()).collect();
    ids.sort_unstable();
    if let Some(twice) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
        let why = "Same ID used for multiple configurations. IDs must be unique";
        return argument("Id", twice[0], why);
    }
    let notification = Notification { rules };
    if let Some((_, second)) = notification.overlap() {
        let why = "Configuration is ambiguously defined. Cannot have overlapping suffixes in two rules if the prefixes are overlapping for the same event type.";
        return argument("Id", &second.id, why);
    }
    Ok((!notification.rules.is_empty()).then_some(notification))
}

fn parse_rule(
    element: &Element,
    child: &str,
    kind: NotificationKind,
    known: impl Fn(&str) -> Option<EventTarget>,
    new_id: impl Fn() -> String,
) -> S3Result<NotificationRule> {
    element.only(&["Id", child, "Event", "Filter"])?;
    let id = element.child_text("Id")?.unwrap_or_default();
    if id.len() > MAX_ID_BYTES {
        return argument("Id", id, "ID length should not exceed allowed limit of 255");
    }
    let address = element.required_text(child)?.trim();
    let target = name_in(address).and_then(&known);
    let target = target.filter(|target| arn(target) == address);
    let Some(target) = target else {
        let why = "Unable to validate the following destination configurations: an operator must declare the target on the nodes, and its address is arn:archipel:events::NAME:KIND";
        return argument(address, "The destination does not exist", why);
    };
    let mut events = element.texts("Event");
    events.sort_unstable();
    events.dedup();
    if events.is_empty() {
        return Err(Code::MalformedXML.into());
    }
    if let Some(wrong) = events.iter().find(|name| !is_event_name(name)) {
        return argument(
            "Event",
            wrong,
            "The event is not supported for notifications",
        );
    }
    let (prefix, suffix) = match element.child("Filter")? {
        Some(filter) => parse_filter(filter)?,
        None => (None, None),
    };
    Ok(NotificationRule {
        id: match id {
            "" => new_id(),
            id => id.to_owned(),
        },
        kind,
        arn: address.to_owned(),
        target: target.name,
        events,
        prefix,
        suffix,
    })
}

/// Returns the name of a target in its address.
fn name_in(address: &str) -> Option<&str> {
    let rest = address.strip_prefix("arn:archipel:events::")?;
    Some(rest.split_once(':')?.0)
}

/// Reads the prefix and the suffix.
fn parse_filter(filter: &Element) -> S3Result<(Option<String>, Option<String>)> {
    filter.only(&["S3Key"])?;
    let (mut prefix, mut suffix) = (None, None);
    let Some(keys) = filter.child("S3Key")? else {
        return Ok((None, None));
    };
    for rule in keys.only(&["FilterRule"])? {
        rule.only(&["Name", "Value"])?;
        let name = rule.required_text("Name")?.trim();
        let value = rule.child_text("Value")?.unwrap_or_default();
        if value.len() > MAX_FILTER_BYTES {
            let why = "Size of filter rule value cannot exceed 1024 bytes in UTF-8 representation";
            return argument("FilterValue", value, why);
        }
        let part = match name.to_ascii_lowercase().as_str() {
            "prefix" => &mut prefix,
            "suffix" => &mut suffix,
            _ => {
                let why = "filter rule name must be either prefix or suffix";
                return argument("FilterRule.Name", name, why);
            }
        };
        if part.replace(value.to_owned()).is_some() {
            let why = "Cannot specify more than one prefix rule or suffix rule in a filter.";
            return argument("FilterRule.Name", name, why);
        }
    }
    Ok((prefix, suffix))
}

/// Writes a configuration as it was sent.
pub fn document(notification: Option<&Notification>) -> Writer {
    let mut xml = Writer::new("NotificationConfiguration");
    for rule in notification.iter().flat_map(|all| &all.rules) {
        for (element, child, kind) in &KINDS {
            if *kind == rule.kind {
                xml.open(element);
                xml.text("Id", &rule.id);
                xml.text(child, &rule.arn);
                rule.events.iter().for_each(|name| xml.text("Event", name));
                write_filter(&mut xml, rule);
                xml.close();
            }
        }
    }
    xml
}

fn write_filter(xml: &mut Writer, rule: &NotificationRule) {
    if rule.prefix.is_none() && rule.suffix.is_none() {
        return;
    }
    xml.open("Filter");
    xml.open("S3Key");
    for (name, value) in [("prefix", &rule.prefix), ("suffix", &rule.suffix)] {
        if let Some(value) = value {
            xml.open("FilterRule");
            xml.text("Name", name);
            xml.text("Value", value);
            xml.close();
        }
    }
    xml.close();
    xml.close();
}

#[cfg(test)]
mod tests;
