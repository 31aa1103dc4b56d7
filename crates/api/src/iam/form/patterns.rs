//! Patterns of parameters, which are the same for all actions.
//!
//! Source: AWS, the API references of IAM and STS: lengths and patterns of the parameters.

use std::ops::RangeInclusive;

use archipel_model::identity::{MAX_SESSION_NAME, is_of_names};

use super::super::error::{IamError, IamResult};

/// The values that a parameter can have.
struct Pattern {
    name: &'static str,
    /// The least and the most characters.
    length: RangeInclusive<usize>,
    fits: fn(&str) -> bool,
}

const fn pattern(name: &'static str, least: usize, most: usize, fits: fn(&str) -> bool) -> Pattern {
    Pattern {
        name,
        length: least..=most,
        fits,
    }
}

const PATTERNS: [Pattern; 9] = [
    pattern("ExternalId", 2, 1224, is_external_id),
    pattern("GroupName", 1, 128, is_name),
    pattern("PathPrefix", 1, 512, is_path_prefix),
    pattern("PolicyArn", 20, 2048, is_arn),
    pattern("PolicyName", 1, 128, is_name),
    pattern("RoleArn", 20, 2048, is_arn),
    pattern("RoleName", 1, 64, is_name),
    pattern("RoleSessionName", 2, MAX_SESSION_NAME, is_name),
    pattern("UserName", 1, 128, is_name),
];

/// Checks a value.
///
/// # Errors
/// `ValidationError` if nothing can have it.
pub fn check(name: &str, value: &str) -> IamResult<()> {
    let Some(pattern) = PATTERNS.iter().find(|pattern| pattern.name == name) else {
        return Ok(());
    };
    match pattern.length.contains(&value.chars().count()) && (pattern.fits)(value) {
        true => Ok(()),
        false => Err(IamError::invalid(format!(
            "1 validation error detected: Value '{value}' at '{name}' failed to satisfy constraint: \
             it has {} to {} characters of those that AWS allows there",
            pattern.length.start(),
            pattern.length.end()
        ))),
    }
}

fn is_name(text: &str) -> bool {
    text.chars().all(is_of_names)
}

fn is_external_id(text: &str) -> bool {
    text.chars().all(|c| is_of_names(c) || ":/".contains(c))
}

fn is_arn(text: &str) -> bool {
    text.starts_with("arn:") && text.chars().all(|c| !c.is_control())
}

fn is_path_prefix(text: &str) -> bool {
    text.starts_with('/') && text.bytes().all(|b| (b'!'..=b'~').contains(&b))
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn values_that_nothing_can_have_are_refused() {
        let refused = [
            ("UserName", "bad name!"),
            ("UserName", ""),
            ("GroupName", "a/b"),
            ("PathPrefix", "foo"),
            ("PolicyArn", "not-an-arn-at-all-xx"),
            ("RoleArn", "arn:aws:iam"),
            ("ExternalId", "x"),
            ("ExternalId", "a b"),
        ];
        for (name, value) in refused {
            check(name, value).unwrap_err();
        }
        check("RoleName", &"r".repeat(65)).unwrap_err();
        check("ExternalId", &"x".repeat(1225)).unwrap_err();
    }

    #[test]
    fn others_are_taken() {
        let taken = [
            ("UserName", "ann@example.com"),
            ("PathPrefix", "/team#1/"),
            ("PolicyArn", "arn:aws:iam::aws:policy/AdministratorAccess"),
            ("ExternalId", "a:b/c"),
            ("Description", "what you like!"),
        ];
        for (name, value) in taken {
            check(name, value).unwrap();
        }
    }
}
