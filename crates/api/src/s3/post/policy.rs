//! The policy of a form: when it expires, and the values that each field may have.
//!
//! A policy is a permission that its signer gives away. A document that can be read in two ways
//! is therefore refused: repeated members, unknown members, a condition with several members.

use std::fmt;
use std::ops::RangeInclusive;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Iso8601;

use super::Fields;
use crate::s3::error::{Code, S3Error, S3Result};

/// The most conditions of a policy.
const MAX_CONDITIONS: usize = 200;
/// Fields that need no condition.
const FREE_FIELDS: [&str; 5] = [
    "awsaccesskeyid",
    "file",
    "policy",
    "signature",
    "x-amz-signature",
];

/// The limits that a signer sets to a form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    expires_ms: i128,
    conditions: Vec<Condition>,
    /// The permitted size of the file in bytes.
    pub length: RangeInclusive<u64>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Condition {
    Equal { field: String, value: String },
    StartsWith { field: String, prefix: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    expiration: String,
    conditions: Vec<Written>,
}

/// A condition as the document writes it.
enum Written {
    /// An object, with every member in order: a map would drop repeated ones.
    Object(Vec<(String, Value)>),
    Array(Vec<Value>),
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Written, D::Error> {
        deserializer.deserialize_any(WrittenVisitor)
    }
}

struct WrittenVisitor;

impl<'de> Visitor<'de> for WrittenVisitor {
    type Value = Written;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Written, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Written::Object(members))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Written, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = seq.next_element()? {
            parts.push(part);
        }
        Ok(Written::Array(parts))
    }
}

fn invalid(why: impl Into<String>) -> S3Error {
    let why = format!("Invalid Policy: {}", why.into());
    S3Error::new(Code::InvalidPolicyDocument, why)
}

/// Returns S3's error for a valid policy that this form violates.
fn denied(why: impl Into<String>) -> S3Error {
    let why = format!("Invalid according to Policy: {}", why.into());
    S3Error::new(Code::AccessDenied, why)
}

impl Policy {
    /// Makes the policy of a form that nobody signed: it sets no limit.
    pub fn unlimited() -> Policy {
        Policy {
            expires_ms: i128::MAX,
            conditions: Vec::new(),
            length: 0..=u64::MAX,
        }
    }

    /// Reads a policy as it stands in the form: base64 of JSON. Its signature is checked elsewhere.
    ///
    /// # Errors
    /// `InvalidPolicyDocument` that says what is wrong.
    pub fn parse(encoded: &str) -> S3Result<Policy> {
        let json = STANDARD
            .decode(encoded.trim())
            .map_err(|_| invalid("not Base64."))?;
        let json = std::str::from_utf8(&json).map_err(|_| invalid("not UTF-8."))?;
        let document: Document =
            serde_json::from_str(&as_json(json)).map_err(|e| invalid(format!("{e}.")))?;
        let expiration = OffsetDateTime::parse(&document.expiration, &Iso8601::PARSING)
            .map_err(|_| invalid("Invalid 'expiration' value."))?;
        if document.conditions.len() > MAX_CONDITIONS {
            return Err(invalid("Too many conditions."));
        }
        let mut policy = Policy {
            expires_ms: expiration.unix_timestamp_nanos() / 1_000_000,
            conditions: Vec::new(),
            length: 0..=u64::MAX,
        };
        for condition in &document.conditions {
            policy.add(condition)?;
        }
        Ok(policy)
    }

    fn add(&mut self, condition: &Written) -> S3Result<()> {
        let members = match condition {
            Written::Object(members) => members,
            Written::Array(parts) => return self.add_operator(parts),
        };
        let [(field, value)] = members.as_slice() else {
            return Err(invalid("Simple conditions must have exactly one property."));
        };
        let value = value
            .as_str()
            .ok_or_else(|| invalid("Values must be strings."))?;
        self.conditions.push(equal(field, value));
        Ok(())
    }

    fn add_operator(&mut self, parts: &[Value]) -> S3Result<()> {
        let [operator, first, second] = parts else {
            return Err(invalid("A condition must have three parts."));
        };
        let operator = operator.as_str().unwrap_or_default().to_ascii_lowercase();
        if operator == "content-length-range" {
            let (Some(low), Some(high)) = (number(first), number(second)) else {
                return Err(invalid("content-length-range takes two numbers."));
            };
            let length = (*self.length.start()).max(low)..=(*self.length.end()).min(high);
            self.length = length;
            return Ok(());
        }
        let (Some(field), Some(value)) = (first.as_str(), second.as_str()) else {
            return Err(invalid("A condition takes two strings."));
        };
        let field = field
            .strip_prefix('$')
            .ok_or_else(|| invalid("The field of a condition must begin with '$'."))?;
        match operator.as_str() {
            "eq" => self.conditions.push(equal(field, value)),
            // Other users may create buckets whose names begin so.
            "starts-with" if field.eq_ignore_ascii_case("bucket") => {
                return Err(invalid("The bucket must be matched exactly."));
            }
            "starts-with" => self.conditions.push(Condition::StartsWith {
                field: field.to_ascii_lowercase(),
                prefix: value.to_owned(),
            }),
            _ => return Err(invalid(format!("Unknown operator {operator:?}."))),
        }
        Ok(())
    }

    /// Checks the form's fields. `bucket` is the one that the form was posted to; a condition must
    /// name it.
    ///
    /// # Errors
    /// `AccessDenied` that names the condition or the field.
    pub fn check(&self, fields: &Fields, bucket: &str, now_ms: u64) -> S3Result<()> {
        if i128::from(now_ms) >= self.expires_ms {
            return Err(denied("Policy expired."));
        }
        for condition in &self.conditions {
            condition.check(fields, bucket)?;
        }
        // S3 answers so too, although the form need not have such a field.
        if !self.conditions.iter().any(|c| c.field() == "bucket") {
            return Err(denied("Extra input fields: bucket"));
        }
        for (name, _) in fields.iter() {
            let free = FREE_FIELDS.contains(&name) || name.starts_with("x-ignore-");
            if !free && !self.conditions.iter().any(|c| c.field() == name) {
                return Err(denied(format!("Extra input fields: {name}")));
            }
        }
        Ok(())
    }
}

/// Returns a policy as JSON. AWS's documentation has escapes that JSON lacks, `\$` and `\v`, and
/// its examples have commas behind the last condition.
fn as_json(policy: &str) -> String {
    let mut json = String::with_capacity(policy.len());
    let mut quoted = false;
    let mut rest = policy.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' if quoted => match rest.next() {
                Some('$') => json.push('$'),
                Some('v') => json.push_str("\\u000b"),
                escaped => {
                    json.push(c);
                    json.extend(escaped);
                }
            },
            ',' if !quoted && rest.as_str().trim_start().starts_with([']', '}']) => {}
            _ => {
                quoted ^= c == '"';
                json.push(c);
            }
        }
    }
    json
}

fn equal(field: &str, value: &str) -> Condition {
    Condition::Equal {
        field: field.to_ascii_lowercase(),
        value: value.to_owned(),
    }
}

/// Reads a number, which some clients write as a string.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_u64(),
    }
}

impl Condition {
    fn field(&self) -> &str {
        match self {
            Condition::Equal { field, .. } | Condition::StartsWith { field, .. } => field,
        }
    }

    fn check(&self, fields: &Fields, bucket: &str) -> S3Result<()> {
        let actual = match self.field() {
            "bucket" => Some(bucket),
            field => fields.get(field),
        };
        let (operator, wanted) = match self {
            Condition::Equal { value, .. } => ("eq", value),
            Condition::StartsWith { prefix, .. } => ("starts-with", prefix),
        };
        // The signer asked for the field: one that is absent matches nothing, not even an empty
        // prefix.
        if actual.is_some_and(|actual| self.matches(actual)) {
            Ok(())
        } else {
            Err(denied(format!(
                "Policy Condition failed: [\"{operator}\", \"${}\", \"{wanted}\"]",
                self.field()
            )))
        }
    }

    fn matches(&self, actual: &str) -> bool {
        match self {
            Condition::Equal { value, .. } => actual == value,
            // A list of types is allowed if each of them is.
            Condition::StartsWith { field, prefix } if field == "content-type" => actual
                .split(',')
                .all(|part| part.starts_with(prefix.as_str())),
            Condition::StartsWith { prefix, .. } => actual.starts_with(prefix.as_str()),
        }
    }
}
