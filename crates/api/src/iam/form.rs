//! The parameters of a request: a form.

use archipel_model::Tags;

use super::error::{IamError, IamResult};
use crate::s3::uri::Query;

/// The most tags of a user, role or policy, and the longest names and values.
const MAX_TAGS: usize = 50;
const MAX_TAG_NAME: usize = 128;
const MAX_TAG_VALUE: usize = 256;

/// The most parameters of a request: enough for all tags.
const MAX_PARAMETERS: usize = 300;

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
        value.ok_or_else(|| {
            IamError::invalid(format!(
                "1 validation error detected: Value at '{name}' failed to satisfy constraint: \
                 Member must not be null"
            ))
        })
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

    /// Returns a list of tags, sorted by name.
    ///
    /// # Errors
    /// `ValidationError`, `InvalidInput` for a repeated name, `LimitExceeded`.
    pub fn tags(&self) -> IamResult<Tags> {
        let mut tags = Tags::new();
        for n in 1.. {
            let Some(name) = self.get(&format!("Tags.member.{n}.Key")) else {
                break;
            };
            let value = self.get(&format!("Tags.member.{n}.Value"));
            let value = value.unwrap_or_default();
            let (name_chars, value_chars) = (name.chars().count(), value.chars().count());
            let control = name.chars().chain(value.chars()).any(char::is_control);
            if !(1..=MAX_TAG_NAME).contains(&name_chars) || value_chars > MAX_TAG_VALUE || control {
                return Err(IamError::invalid(format!("The tag {name:?} is not valid")));
            }
            // Names of tags are not told apart by case.
            if tags
                .iter()
                .any(|(other, _)| other.to_lowercase() == name.to_lowercase())
            {
                let why = "Duplicate tag keys found.";
                return Err(IamError::new(
                    "InvalidInput",
                    http::StatusCode::BAD_REQUEST,
                    why,
                ));
            }
            tags.push((name.to_owned(), value.to_owned()));
        }
        check_tags(&tags)?;
        tags.sort();
        Ok(tags)
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

    /// Checks that each parameter is one of these, or a member of one.
    ///
    /// # Errors
    /// `NotImplemented`: what is not known must not be ignored.
    pub fn only(&self, known: &[&str]) -> IamResult<()> {
        for (name, _) in self.0.iter() {
            let base = name.split('.').next().unwrap_or_default();
            if !known.contains(&base) && !["Action", "Version"].contains(&name) {
                return Err(IamError::not_implemented(&format!("The parameter {name}")));
            }
        }
        Ok(())
    }
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
