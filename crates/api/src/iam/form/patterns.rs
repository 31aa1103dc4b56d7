//! What the values of parameters can be, whichever action they are for.
//!
//! Source: AWS, the API references of IAM and STS: lengths and patterns of the parameters.

use super::super::error::{IamError, IamResult};

/// The parameters: name, least and most characters, and what their text must be.
const PATTERNS: [(&str, usize, usize, fn(&str) -> bool); 9] = [
    ("ExternalId", 2, 1224, is_external_id),
    ("GroupName", 1, 128, is_name),
    ("PathPrefix", 1, 512, is_path_prefix),
    ("PolicyArn", 20, 2048, is_arn),
    ("PolicyName", 1, 128, is_name),
    ("RoleArn", 20, 2048, is_arn),
    ("RoleName", 1, 64, is_name),
    ("RoleSessionName", 2, 64, is_name),
    ("UserName", 1, 128, is_name),
];

/// Checks a value.
///
/// # Errors
/// `ValidationError` if nothing can have it.
pub fn check(name: &str, value: &str) -> IamResult<()> {
    let Some((_, least, most, fits)) = PATTERNS.iter().find(|(known, ..)| *known == name) else {
        return Ok(());
    };
    match (*least..=*most).contains(&value.chars().count()) && fits(value) {
        true => Ok(()),
        false => Err(IamError::invalid(format!(
            "1 validation error detected: Value '{value}' at '{name}' failed to satisfy constraint: \
             it has {least} to {most} characters of those that AWS allows there"
        ))),
    }
}

fn is_name(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_ascii_alphanumeric() || "_+=,.@-".contains(c))
}

fn is_external_id(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_ascii_alphanumeric() || "_+=,.@:/-".contains(c))
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
