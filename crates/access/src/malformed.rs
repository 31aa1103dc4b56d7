//! The error of a text that is no policy.

/// The reason why a text is no policy. Its messages begin as those of AWS.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}{}{at}", if .at.is_empty() { "" } else { ": " })]
pub struct Malformed {
    /// The fault.
    what: String,
    /// The place, and details: `Statement[0].Action: ...`.
    at: String,
}

impl Malformed {
    /// Makes an error without a place.
    pub(crate) fn whole(what: impl Into<String>) -> Malformed {
        Malformed {
            what: what.into(),
            at: String::new(),
        }
    }

    pub(crate) fn new(what: &str, at: &str, why: &str) -> Malformed {
        let separator = if why.is_empty() { "" } else { ": " };
        Malformed {
            what: what.to_owned(),
            at: format!("{at}{separator}{why}"),
        }
    }

    pub(crate) fn syntax(at: &str, why: &str) -> Malformed {
        Malformed::new("Invalid policy syntax", at, why)
    }

    pub(crate) fn missing(at: &str, element: &str) -> Malformed {
        Malformed::new(&format!("Missing required field {element}"), at, "")
    }

    pub(crate) fn unknown(at: &str, element: &str) -> Malformed {
        Malformed::new(&format!("Unknown field {element}"), at, "")
    }

    pub(crate) fn principal(at: &str, why: &str) -> Malformed {
        Malformed::new("Invalid principal in policy", at, why)
    }

    pub(crate) fn action(at: &str, why: &str) -> Malformed {
        Malformed::new("Policy has invalid action", at, why)
    }

    pub(crate) fn resource(at: &str, why: &str) -> Malformed {
        Malformed::new("Policy has invalid resource", at, why)
    }

    pub(crate) fn condition(at: &str, why: &str) -> Malformed {
        Malformed::new("Policy has an invalid condition", at, why)
    }
}
