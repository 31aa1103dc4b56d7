//! Conditions of a statement: operators and their values.
//!
//! Source: AWS, "IAM JSON policy elements: Condition operators" and "Creating a condition with
//! multiple keys or values".

pub mod keys;
mod operator;
mod values;

use crate::context::{Context, spelling};
use crate::json::Json;
use crate::malformed::Malformed;

use operator::{Kind, Operator, Set};
use values::Values;

/// Keys whose value a client cannot choose freely: who it is, and from where. Some are never set
/// here.
///
/// Source: AWS, "The meaning of 'public'" in "Blocking public access".
const CONFINING: [&str; 13] = [
    "aws:principalaccount",
    "aws:principalarn",
    "aws:principalorgid",
    "aws:sourceaccount",
    "aws:sourcearn",
    "aws:sourceip",
    "aws:sourceowner",
    "aws:sourcevpc",
    "aws:sourcevpce",
    "aws:userid",
    "aws:username",
    "s3:dataaccesspointaccount",
    "s3:dataaccesspointarn",
];

/// One operator on one key.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Condition {
    operator: Operator,
    /// The condition key, in lower case.
    key: String,
    /// Its spelling, which tells apart tags whose names differ in case only.
    spelling: String,
    values: Values,
}

impl Condition {
    /// Reads a block: `{"operator": {"key": values}}`. All of its conditions must hold.
    pub fn parse_block(
        block: &Json,
        variables: bool,
        at: &str,
    ) -> Result<Vec<Condition>, Malformed> {
        let object = |json: &Json, at: &str| match json {
            Json::Object(members) => Ok(members.clone()),
            _ => Err(Malformed::condition(at, "it is not an object")),
        };
        let mut all = Vec::new();
        for (name, keys) in object(block, at)? {
            let at = format!("{at}.{name}");
            let operator = Operator::parse(&name)
                .ok_or_else(|| Malformed::condition(&at, "the operator is unknown"))?;
            for (key, values) in object(&keys, &at)? {
                let at = format!("{at}.{key}");
                all.push(Condition::parse(operator, &key, &values, variables, &at)?);
            }
        }
        Ok(all)
    }

    fn parse(
        operator: Operator,
        key: &str,
        values: &Json,
        variables: bool,
        at: &str,
    ) -> Result<Condition, Malformed> {
        let wrong = |why: &str| Malformed::condition(at, why);
        let split = |at: Option<(&str, &str)>, plain: fn(char) -> bool| {
            at.is_some_and(|(service, name)| {
                !service.is_empty() && !name.is_empty() && service.chars().all(plain)
            })
        };
        let of_service = |c: char| c.is_ascii_alphanumeric() || c == '-';
        // The keys of an identity provider begin with its host and path.
        let of_provider = |c: char| c.is_ascii_alphanumeric() || "-._/:".contains(c);
        let named =
            split(key.split_once(':'), of_service) || split(key.rsplit_once(':'), of_provider);
        if !named || key.chars().any(char::is_control) {
            return Err(wrong("it is no condition key"));
        }
        let texts: Option<Vec<String>> = values.list().iter().map(text_of).collect();
        let texts = texts.filter(|texts| !texts.is_empty());
        let texts = texts.ok_or_else(|| wrong("the values are not texts"))?;
        let values = Values::parse(operator.kind, &texts, variables).map_err(|why| wrong(&why))?;
        Ok(Condition {
            operator,
            key: key.to_ascii_lowercase(),
            spelling: spelling(key),
            values,
        })
    }

    /// Returns the condition key, in lower case.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the condition key and those of the variables in its values, in lower case.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.key.as_str()).chain(self.values.variables())
    }

    /// Returns true if the condition holds for a request.
    pub fn holds(&self, context: &Context) -> bool {
        let found = context.get_spelled(&self.key, &self.spelling);
        if self.operator.kind == Kind::Null {
            return self.values.wants_null(found.is_none());
        }
        let Operator { negated, .. } = self.operator;
        let fits = |value: &String| self.values.any_matches(value, context) != negated;
        match (self.operator.set, found) {
            (_, None) if self.operator.if_exists => true,
            (Set::Single, None) => negated,
            (Set::ForAll, None) => true,
            (Set::ForAny, None) => false,
            (Set::ForAll, Some(values)) => values.iter().all(fits),
            (Set::ForAny, Some(values)) => values.iter().any(fits),
            // A negated operator says "none of these".
            (Set::Single, Some(values)) if negated => values.iter().all(fits),
            (Set::Single, Some(values)) => values.iter().any(fits),
        }
    }

    /// Returns true if the condition fixes who asks or from where, so that it does not hold for
    /// everybody.
    pub fn confines(&self) -> bool {
        let Operator {
            negated,
            if_exists,
            set,
            ..
        } = self.operator;
        !negated
            && !if_exists
            && set != Set::ForAll
            && CONFINING.contains(&self.key.as_str())
            && self.values.are_fixed()
    }
}

/// Returns a value as text: AWS allows numbers and Booleans without quotes.
fn text_of(value: &Json) -> Option<String> {
    match value {
        Json::String(text) | Json::Number(text) => Some(text.clone()),
        Json::Bool(value) => Some(value.to_string()),
        _ => None,
    }
}
