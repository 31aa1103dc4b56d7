//! Advice to operators about errors of the model. The texts of identities are AWS's, because
//! IAM answers them, too; here they are written as all others of this API.

use archipel_model::Error;

use crate::json::shown;

/// The most characters that are shown of a name. No bucket and no access key has a longer one.
const SHOWN_OF_NAME: usize = 128;

/// Returns the text of an error, with the name of what is missing, and with what to do.
pub(super) fn explain(error: &Error, missing: Option<&str>) -> String {
    let text = match error {
        Error::NoSuchEntity(text)
        | Error::EntityExists(text)
        | Error::EntityInUse(text)
        | Error::LimitExceeded(text) => plain(text),
        other => other.to_string(),
    };
    let text = match missing {
        Some(name) => format!("{text}: {:?}", shown(name, SHOWN_OF_NAME)),
        None => text,
    };
    match advice(error) {
        Some(advice) => format!("{text}; fix: {advice}"),
        None => text,
    }
}

fn advice(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::NoSuchBucket => "archipel bucket list (GET /v1/buckets) shows all",
        Error::NoSuchAccessKey => "archipel key list (GET /v1/keys) shows all",
        Error::NoSuchToken => "archipel token list (GET /v1/tokens) shows all",
        Error::NoSuchEntity(text) => where_to_look(text),
        Error::EntityExists(_) | Error::BucketExists => "choose another name",
        Error::AccessKeyExists => "choose another id",
        Error::BucketNotEmpty => "delete its objects, versions, delete markers and K2V items first",
        Error::LockNeedsVersions => "archipel bucket versioning enable BUCKET",
        Error::PublicAccessBlocked => {
            "archipel bucket public-access set BUCKET --block-public-policy false --restrict-public-buckets false"
        }
        Error::LimitExceeded(_) => "remove what is no longer used",
        Error::MalformedPolicy(_) => "docs/access.md has policies to start from",
        _ => return None,
    })
}

/// Returns where to look for the names of what is missing.
fn where_to_look(text: &str) -> &'static str {
    match text.split(' ').nth(1) {
        Some("user") => "archipel user list (GET /v1/users) shows all",
        Some("group") => "archipel group list (GET /v1/groups) shows all",
        Some("OIDC") => "GET /v1/identity-providers shows all",
        Some("role") => "archipel role list (GET /v1/roles) shows all",
        _ => {
            "archipel policy list (GET /v1/policies) shows managed policies; archipel user info NAME shows what \
             a user has, as group and role info do"
        }
    }
}

/// Returns a sentence of AWS as a text of this API: in lower case, without the full stop.
fn plain(sentence: &str) -> String {
    let mut letters = sentence.trim_end_matches('.').chars();
    let first = letters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_with_the_place_to_look() {
        let error = Error::NoSuchEntity("The group with name none cannot be found.".into());
        assert_eq!(
            explain(&error, None),
            "the group with name none cannot be found; fix: archipel group list (GET /v1/groups) shows all"
        );
        let error = Error::NoSuchEntity("Policy arn:x was not found.".into());
        assert!(
            explain(&error, None)
                .starts_with("policy arn:x was not found; fix: archipel policy list")
        );
    }

    #[test]
    fn name_that_is_missing_is_shown_up_to_a_length() {
        assert_eq!(
            explain(&Error::NoSuchBucket, Some("photos")),
            r#"no such bucket: "photos"; fix: archipel bucket list (GET /v1/buckets) shows all"#
        );
        let long = explain(&Error::NoSuchAccessKey, Some(&"\u{e4}".repeat(5000)));
        assert!(long.chars().count() < 250 && long.contains("..."), "{long}");
    }

    #[test]
    fn an_error_that_says_what_to_do_stays_as_it_is() {
        let error = Error::EntityInUse("Cannot delete entity, must delete policies first.".into());
        assert_eq!(
            explain(&error, None),
            "cannot delete entity, must delete policies first"
        );
    }
}
