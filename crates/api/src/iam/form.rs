//! The parameters of a request: a form.

mod patterns;

use archipel_model::Tags;

use super::error::{IamError, IamResult};
use crate::s3::uri::Query;

/// The most tags of a user, role or policy, and the longest names and values.
const MAX_TAGS: usize = 50;
const MAX_TAG_NAME: usize = 128;
const MAX_TAG_VALUE: usize = 256;

/// The most parameters of a request: enough for all tags.
const MAX_PARAMETERS: usize = 300;

/// The parameters that are lists, and the fields of their members; none if a member is a text.
const LISTS: [(&str, &[&str]); 5] = [
    ("ClientIDList", &[]),
    ("PolicyArns", &["arn"]),
    ("TagKeys", &[]),
    ("Tags", &["Key", "Value"]),
    ("ThumbprintList", &[]),
];

/// The parameters of a request.
pub struct Form(Query);

impl Form {
    /// Reads a form.
    ///
    /// # Errors
    /// `MalformedQueryString`; `ValidationError` for a parameter that is given twice.
    pub fn parse(text: &str) -> IamResult<Form> {
        let query = Query::parse_up_to(text, MAX_PARAMETERS)?;
        let mut names: Vec<&str> = query.iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(IamError::invalid(format!("{} is given twice", pair[0]))),
            None => Ok(Form(query)),
        }
    }

    /// Returns a parameter that may be absent.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)
    }

    /// Returns a parameter.
    ///
    /// # Errors
    /// `ValidationError` if it is absent or empty.
    pub fn required(&self, name: &str) -> IamResult<&str> {
        let value = self.get(name).filter(|value| !value.is_empty());
        value.ok_or_else(|| missing(name))
    }

    /// Returns a number between two limits.
    ///
    /// # Errors
    /// `ValidationError`.
    pub fn number(&self, name: &str, default: u64, least: u64, most: u64) -> IamResult<u64> {
        let Some(text) = self.get(name) else {
            return Ok(default);
        };
        let number = text.parse().ok();
        number
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| {
                IamError::invalid(format!(
                    "1 validation error detected: Value '{text}' at '{name}' failed to satisfy \
                     constraint: Member must have a value from {least} to {most}"
                ))
            })
    }

    /// Returns `true` or `false`.
    ///
    /// # Errors
    /// `ValidationError`.
    pub fn flag(&self, name: &str) -> IamResult<bool> {
        match self.get(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(IamError::invalid(format!(
                "{name}: {other:?} is no Boolean"
            ))),
        }
    }

    /// Returns the members of a list: `NAME.member.1`, `NAME.member.2` and so on.
    pub fn members(&self, name: &str) -> Vec<&str> {
        let numbers = 1..;
        numbers
            .map_while(|n| self.get(&format!("{name}.member.{n}")))
            .collect()
    }

    /// Returns true if the request has tags.
    pub fn gives_tags(&self) -> bool {
        self.get("Tags.member.1.Key").is_some()
    }

    /// Returns a list of tags, sorted by name.
    ///
    /// # Errors
    /// `ValidationError`; `InvalidInput` for a repeated or reserved name.
    pub fn tags(&self) -> IamResult<Tags> {
        let mut tags = Tags::new();
        for n in 1.. {
            let Some(name) = self.get(&format!("Tags.member.{n}.Key")) else {
                break;
            };
            let value = self.required_text(&format!("Tags.member.{n}.Value"))?;
            let (name_chars, value_chars) = (name.chars().count(), value.chars().count());
            let plain = name.chars().chain(value.chars()).all(is_of_tags);
            if !(1..=MAX_TAG_NAME).contains(&name_chars) || value_chars > MAX_TAG_VALUE || !plain {
                return Err(IamError::invalid(format!("The tag {name:?} is not valid")));
            }
            let reserved = |text: &str| text.to_lowercase().starts_with("aws:");
            if reserved(name) || reserved(value) {
                let why = "Tag keys and values that begin with aws: are reserved for AWS.";
                return Err(invalid_input(why));
            }
            // Names of tags are not told apart by case.
            if tags
                .iter()
                .any(|(other, _)| other.to_lowercase() == name.to_lowercase())
            {
                return Err(invalid_input("Duplicate tag keys found."));
            }
            tags.push((name.to_owned(), value.to_owned()));
        }
        if tags.len() > MAX_TAGS {
            return Err(IamError::invalid(format!(
                "At most {MAX_TAGS} tags are allowed"
            )));
        }
        tags.sort();
        Ok(tags)
    }

    /// Returns a parameter that may be empty.
    fn required_text(&self, name: &str) -> IamResult<&str> {
        self.get(name).ok_or_else(|| missing(name))
    }

    /// Returns the members of a list that needs one at least, and has 50 at most.
    ///
    /// # Errors
    /// `ValidationError`.
    pub fn some_members(&self, name: &str) -> IamResult<Vec<&str>> {
        let members = self.members(name);
        match members.len() {
            0 => Err(missing(name)),
            count if count > MAX_TAGS => {
                let why = format!("{name}: at most {MAX_TAGS} members are allowed");
                Err(IamError::invalid(why))
            }
            _ => Ok(members),
        }
    }

    /// Refuses a new name. Clients that change only the path give the name as it is.
    ///
    /// # Errors
    /// `NotImplemented`: keys, memberships and policies of others name what they mean.
    pub fn keeps_name(&self, name: &str, parameter: &str) -> IamResult<()> {
        match self.get(parameter).filter(|new| *new != name) {
            Some(_) => Err(IamError::not_implemented(&format!(
                "{parameter}: another name than the one of now"
            ))),
            None => Ok(()),
        }
    }

    /// Checks that each parameter is one of these, or belongs to a member of one that is a list,
    /// and that names and ARNs can be some.
    ///
    /// # Errors
    /// `NotImplemented`: what is not known must not be ignored; `ValidationError`.
    pub fn only(&self, known: &[&str]) -> IamResult<()> {
        for (name, value) in self.0.iter().filter(|(name, _)| !is_of_all(name)) {
            let base = name.split('.').next().unwrap_or_default();
            if !known.contains(&base) {
                return Err(IamError::not_implemented(&format!("The parameter {name}")));
            }
            match LISTS.iter().find(|(list, _)| *list == base) {
                Some((list, fields)) => self.check_member(list, fields, name, value)?,
                None if name == base => patterns::check(name, value)?,
                None => return Err(IamError::invalid(format!("{base} is no list: {name}"))),
            }
        }
        Ok(())
    }

    /// Checks a parameter of a list: SDKs send `LIST=` for an empty one, and `LIST.member.N` or
    /// `LIST.member.N.FIELD`, from 1 and without gaps.
    fn check_member(&self, list: &str, fields: &[&str], name: &str, value: &str) -> IamResult<()> {
        let wrong = || IamError::invalid(format!("{name} is no member of the list {list}"));
        let Some(rest) = name
            .strip_prefix(list)
            .and_then(|rest| rest.strip_prefix('.'))
        else {
            return value.is_empty().then_some(()).ok_or_else(wrong);
        };
        let rest = rest.strip_prefix("member.").ok_or_else(wrong)?;
        let (number, field) = match rest.split_once('.') {
            Some((number, field)) => (number, Some(field)),
            None => (rest, None),
        };
        let is_field = match field {
            Some(field) => fields.contains(&field),
            None => fields.is_empty(),
        };
        let place: usize = number.parse().map_err(|_| wrong())?;
        if !is_field || place == 0 || place.to_string() != number {
            return Err(wrong());
        }
        // The first field is the one without which there is no member.
        let member = |place: usize| match fields.first() {
            Some(first) => self.get(&format!("{list}.member.{place}.{first}")),
            None => self.get(&format!("{list}.member.{place}")),
        };
        let follows = member(place).is_some() && (place == 1 || member(place - 1).is_some());
        follows.then_some(()).ok_or_else(wrong)
    }
}

/// Returns true for the parameters that all requests have.
fn is_of_all(name: &str) -> bool {
    ["Action", "Version"].contains(&name)
}

fn missing(name: &str) -> IamError {
    IamError::invalid(format!(
        "1 validation error detected: Value at '{name}' failed to satisfy constraint: Member must \
         not be null"
    ))
}

fn invalid_input(why: &str) -> IamError {
    IamError::new("InvalidInput", http::StatusCode::BAD_REQUEST, why)
}

/// Returns true for the characters of tags: `[\p{L}\p{Z}\p{N}_.:/=+\-@]`.
fn is_of_tags(c: char) -> bool {
    c.is_alphanumeric() || (c.is_whitespace() && !c.is_control()) || "_.:/=+-@".contains(c)
}

/// Checks how many tags there are.
///
/// # Errors
/// `LimitExceeded`.
pub fn check_tags(tags: &Tags) -> IamResult<()> {
    match tags.len() > MAX_TAGS {
        true => {
            let why = format!("Cannot exceed quota for Tags: {MAX_TAGS}");
            Err(archipel_model::Error::LimitExceeded(why).into())
        }
        false => Ok(()),
    }
}
