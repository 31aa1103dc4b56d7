//! A bucket's lifecycle configuration as a document, and the headers that tell when an object
//! expires.
//!
//! Source: AWS, "Lifecycle configuration elements" and the API pages of
//! PutBucketLifecycleConfiguration and its data types.

mod document;
mod headers;

use std::collections::HashSet;

use archipel_model::{Expiration, Lifecycle, LifecycleFilter, LifecycleRule, NoncurrentExpiration};
use ring::digest;
use time::{Time, UtcOffset};

use super::date;
use super::error::{Code, S3Error, S3Result};
use super::tagging;
use super::xml::{self, Element};

pub use document::document;
pub use headers::{
    MINIMUM_SIZE, expiration, minimum_size_varies, set_expiration_header, tell_abort,
    tell_minimum_size,
};

/// The most rules.
pub const MAX_RULES: usize = 1000;
/// The longest name of a rule.
const MAX_ID_BYTES: usize = 255;
/// The longest prefix.
const MAX_PREFIX_BYTES: usize = 1024;
/// The most tags of a filter: as many as an object can have.
const MAX_TAGS: usize = 10;
/// The most noncurrent versions that a rule can keep.
const MAX_KEPT: u32 = 100;
/// The last year of a date.
const LAST_YEAR: i32 = 9999;

fn malformed<T>() -> S3Result<T> {
    Err(Code::MalformedXML.into())
}

fn invalid<T>(why: impl Into<String>) -> S3Result<T> {
    Err(S3Error::new(Code::InvalidRequest, why.into()))
}

fn argument<T>(name: &str, value: &str, why: impl Into<String>) -> S3Result<T> {
    Err(S3Error::argument(name, value, why.into()))
}

/// Reads a configuration and checks it, so that it can be used without further thought.
///
/// # Errors
/// [`Code::MalformedXML`], [`Code::InvalidRequest`], [`Code::InvalidArgument`];
/// [`Code::NotImplemented`] for transitions.
pub fn parse(document: &[u8]) -> S3Result<Lifecycle> {
    let root = xml::parse(document, "LifecycleConfiguration")?;
    let rules = root.only(&["Rule"])?;
    if rules.is_empty() || rules.len() > MAX_RULES {
        return malformed();
    }
    let mut rules: Vec<_> = rules.iter().map(parse_rule).collect::<S3Result<_>>()?;
    check_forms(&rules)?;
    check_overlaps(&rules)?;
    let mut ids = HashSet::new();
    let mut named = rules.iter().filter(|rule| !rule.id.is_empty());
    if let Some(twice) = named.find(|rule| !ids.insert(rule.id.as_str())) {
        let why = "Rule ID must be unique. Found same ID for more than one rule";
        return argument("ID", &twice.id, why);
    }
    for (number, rule) in rules.iter_mut().enumerate() {
        if rule.id.is_empty() {
            rule.id = id_of(document, number);
        }
    }
    Ok(Lifecycle {
        rules,
        minimum_size_varies: false,
    })
}

/// Checks that all rules have the form of the first one.
fn check_forms(rules: &[LifecycleRule]) -> S3Result<()> {
    let mut forms = rules.iter().map(|rule| rule.filter.old_form);
    let first = forms.next();
    match (forms.all(|form| Some(form) == first), first) {
        (true, _) => Ok(()),
        (false, Some(true)) => invalid("Filter element can only be used in Lifecycle V2."),
        (false, _) => invalid(
            "Base level prefix cannot be used in Lifecycle V2, prefixes are only supported in the Filter.",
        ),
    }
}

/// Checks that no two enabled rules of the old form have the same action for one object. Rules with
/// filters may overlap: the earliest expiry counts.
fn check_overlaps(rules: &[LifecycleRule]) -> S3Result<()> {
    let asks = |rule: &LifecycleRule, action: &str| match action {
        "Expiration" => rule.expiration.is_some(),
        "NoncurrentVersionExpiration" => rule.noncurrent.is_some(),
        _ => rule.abort_days.is_some(),
    };
    for action in [
        "Expiration",
        "NoncurrentVersionExpiration",
        "AbortIncompleteMultipartUpload",
    ] {
        let counts =
            |rule: &&LifecycleRule| rule.enabled && rule.filter.old_form && asks(rule, action);
        let mut prefixes: Vec<&str> = rules
            .iter()
            .filter(counts)
            .map(|rule| rule.filter.prefix.as_deref().unwrap_or_default())
            .collect();
        // A prefix that begins another one then also begins the one right after itself.
        prefixes.sort_unstable();
        let mut pairs = prefixes.windows(2);
        if let Some([one, two]) = pairs.find(|pair| pair[1].starts_with(pair[0])) {
            return invalid(format!(
                "Found overlapping prefixes '{two}' and '{one}' for same action type '{action}'"
            ));
        }
    }
    Ok(())
}

/// Returns the name of a rule that was given none. The same document gives the same names.
fn id_of(document: &[u8], number: usize) -> String {
    let mut hash = digest::Context::new(&digest::SHA256);
    hash.update(document);
    hash.update(&number.to_be_bytes());
    hex::encode(&hash.finish().as_ref()[..16])
}

fn parse_rule(element: &Element) -> S3Result<LifecycleRule> {
    if ["Transition", "NoncurrentVersionTransition"]
        .iter()
        .any(|name| element.children.iter().any(|c| c.name == *name))
    {
        return Err(S3Error::not_implemented(
            "A transition to another storage class",
        ));
    }
    element.only(&[
        "AbortIncompleteMultipartUpload",
        "Expiration",
        "Filter",
        "ID",
        "NoncurrentVersionExpiration",
        "Prefix",
        "Status",
    ])?;
    let id = element.child_text("ID")?.unwrap_or_default();
    if id.len() > MAX_ID_BYTES {
        return argument("ID", id, "ID length should not exceed allowed limit of 255");
    }
    let rule = LifecycleRule {
        id: id.to_owned(),
        enabled: match element.required_text("Status")?.trim() {
            "Enabled" => true,
            "Disabled" => false,
            _ => return malformed(),
        },
        filter: parse_filter(element)?,
        expiration: of_child(element, "Expiration", parse_expiration)?,
        noncurrent: of_child(element, "NoncurrentVersionExpiration", parse_noncurrent)?,
        abort_days: of_child(element, "AbortIncompleteMultipartUpload", parse_abort)?,
    };
    check(&rule)?;
    Ok(rule)
}

fn of_child<T>(
    element: &Element,
    name: &str,
    parse: impl Fn(&Element) -> S3Result<T>,
) -> S3Result<Option<T>> {
    element.child(name)?.map(parse).transpose()
}

/// Checks what the parts of a rule demand of one another.
fn check(rule: &LifecycleRule) -> S3Result<()> {
    let filter = &rule.filter;
    let marker = matches!(rule.expiration, Some(Expiration::DeleteMarkers(_)));
    let sized = filter.larger_than.is_some() || filter.smaller_than.is_some();
    if rule.expiration.is_none() && rule.noncurrent.is_none() && rule.abort_days.is_none() {
        return invalid("At least one action needs to be specified in a rule.");
    }
    for (is_there, name) in [
        (rule.abort_days.is_some(), "AbortIncompleteMultipartUpload"),
        (marker, "ExpiredObjectDeleteMarker"),
    ] {
        if is_there && !filter.tags.is_empty() {
            return invalid(format!("{name} cannot be specified with Tags."));
        }
        if is_there && sized {
            return invalid(format!("{name} cannot be specified with Object Size."));
        }
    }
    let keeps = rule.noncurrent.is_some_and(|rule| rule.keep.is_some());
    if keeps && filter.old_form {
        return invalid("NewerNoncurrentVersions needs a Filter element.");
    }
    Ok(())
}

fn parse_filter(rule: &Element) -> S3Result<LifecycleFilter> {
    let filter = match (rule.child_text("Prefix")?, rule.child("Filter")?) {
        (Some(prefix), None) => LifecycleFilter {
            old_form: true,
            prefix: Some(prefix.to_owned()),
            ..LifecycleFilter::default()
        },
        (None, Some(filter)) => {
            filter.only(&[
                "And",
                "ObjectSizeGreaterThan",
                "ObjectSizeLessThan",
                "Prefix",
                "Tag",
            ])?;
            match (filter.child("And")?, filter.children.len()) {
                (Some(and), 1) => parse_and(and)?,
                (None, 0 | 1) => parse_predicates(filter)?,
                _ => return malformed(),
            }
        }
        _ => return malformed(),
    };
    let prefix = filter.prefix.as_deref().unwrap_or_default();
    if prefix.len() > MAX_PREFIX_BYTES {
        return invalid("The maximum size of a prefix is 1024.");
    }
    check_sizes(&filter)?;
    check_tags(&filter)?;
    Ok(filter)
}

fn parse_and(and: &Element) -> S3Result<LifecycleFilter> {
    and.only(&[
        "ObjectSizeGreaterThan",
        "ObjectSizeLessThan",
        "Prefix",
        "Tag",
    ])?;
    match and.children.len() {
        0 | 1 => malformed(),
        _ => parse_predicates(and),
    }
}

fn parse_predicates(element: &Element) -> S3Result<LifecycleFilter> {
    let size = |name: &str| -> S3Result<Option<u64>> {
        let text = element.child_text(name)?.map(str::trim);
        text.map(number).transpose()
    };
    let tags = element.children.iter().filter(|child| child.name == "Tag");
    Ok(LifecycleFilter {
        old_form: false,
        prefix: element.child_text("Prefix")?.map(str::to_owned),
        tags: tags.map(tagging::parse_tag).collect::<S3Result<_>>()?,
        larger_than: size("ObjectSizeGreaterThan")?,
        smaller_than: size("ObjectSizeLessThan")?,
    })
}

fn check_sizes(filter: &LifecycleFilter) -> S3Result<()> {
    match (filter.larger_than, filter.smaller_than) {
        (_, Some(0)) => invalid("'ObjectSizeLessThan' should be greater than 0"),
        (Some(larger), Some(smaller)) if larger >= smaller => {
            invalid("'ObjectSizeLessThan' has to be a value greater than 'ObjectSizeGreaterThan'.")
        }
        _ => Ok(()),
    }
}

fn check_tags(filter: &LifecycleFilter) -> S3Result<()> {
    if tagging::repeated(&filter.tags).is_some() {
        return invalid("Duplicate Tag Keys are not allowed.");
    }
    if filter.tags.len() > MAX_TAGS {
        return invalid("A filter can have at most 10 tags.");
    }
    let mut tags = filter.tags.iter();
    tags.try_for_each(|(key, value)| tagging::check_tag(key, value))
}

fn parse_expiration(element: &Element) -> S3Result<Expiration> {
    element.only(&["Date", "Days", "ExpiredObjectDeleteMarker"])?;
    let text = |name: &str| Ok::<_, S3Error>(element.child_text(name)?.map(str::trim));
    let all = (
        text("Days")?,
        text("Date")?,
        text("ExpiredObjectDeleteMarker")?,
    );
    match all {
        (Some(text), None, None) => Ok(Expiration::Days(days(text, "Days", "Expiration")?)),
        (None, Some(text), None) => Ok(Expiration::Date(midnight(text)?)),
        (None, None, Some("true")) => Ok(Expiration::DeleteMarkers(true)),
        (None, None, Some("false")) => Ok(Expiration::DeleteMarkers(false)),
        _ => malformed(),
    }
}

fn parse_noncurrent(element: &Element) -> S3Result<NoncurrentExpiration> {
    element.only(&["NewerNoncurrentVersions", "NoncurrentDays"])?;
    let text = element.required_text("NoncurrentDays")?.trim();
    let days = days(text, "NoncurrentDays", "NoncurrentVersionExpiration")?;
    let name = "NewerNoncurrentVersions";
    let keep = match element.child_text(name)?.map(str::trim) {
        None => None,
        Some(text) => match number(text)? {
            kept @ 1..=MAX_KEPT => Some(kept),
            _ => {
                return argument(
                    name,
                    text,
                    "'NewerNoncurrentVersions' must be from 1 to 100",
                );
            }
        },
    };
    Ok(NoncurrentExpiration { days, keep })
}

fn parse_abort(element: &Element) -> S3Result<u32> {
    element.only(&["DaysAfterInitiation"])?;
    let text = element.required_text("DaysAfterInitiation")?.trim();
    days(
        text,
        "DaysAfterInitiation",
        "AbortIncompleteMultipartUpload",
    )
}

/// Reads a whole number.
fn number<T: std::str::FromStr>(text: &str) -> S3Result<T> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse() {
        Ok(number) if plain => Ok(number),
        _ => malformed(),
    }
}

/// Reads a number of days: at least 1, and at most what S3 allows.
fn days(text: &str, name: &str, action: &str) -> S3Result<u32> {
    let Ok(days) = text.parse::<i32>() else {
        return malformed();
    };
    match u32::try_from(days) {
        Ok(days) if days > 0 => Ok(days),
        _ => {
            let why = format!("'{name}' for {action} action must be a positive integer");
            argument(name, text, why)
        }
    }
}

/// Reads a date or a time at midnight UTC, in milliseconds since 1970.
fn midnight(text: &str) -> S3Result<u64> {
    let of_date = || Some(date::date(text)?.midnight().assume_utc());
    let Some(time) = date::time(text).or_else(of_date) else {
        return malformed();
    };
    let Ok(seconds) = u64::try_from(time.unix_timestamp()) else {
        return argument("Date", text, "'Date' must not be before 1970");
    };
    let in_utc = time.checked_to_offset(UtcOffset::UTC);
    if in_utc.is_none_or(|time| time.time() != Time::MIDNIGHT || time.year() > LAST_YEAR) {
        return argument("Date", text, "'Date' must be at midnight GMT");
    }
    Ok(seconds * 1000)
}

#[cfg(test)]
mod tests;
