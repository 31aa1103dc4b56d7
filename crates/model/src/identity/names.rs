//! Rules of names, ARNs and unique ids.
//!
//! Source: AWS, "IAM identifiers" and "IAM and AWS STS quotas".

use archipel_access::principal::arn;
use archipel_base::Id;

use crate::error::Error;

/// The longest name of a session.
pub const MAX_SESSION_NAME: usize = 64;

/// The longest path of a user, group, role or policy.
const MAX_PATH: usize = 512;

/// The longest issuer of an identity provider, without its scheme.
const MAX_PROVIDER: usize = 190;

/// Returns a unique id as AWS has them: a prefix and 17 letters and digits of an incarnation.
pub fn unique_id(prefix: &str, incarnation: Id) -> String {
    const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let number = u128::from_be_bytes(incarnation.0);
    let letter = |n: u32| char::from(ALPHABET[(number >> (5 * n)) as usize % 32]);
    prefix.chars().chain((0..17).map(letter)).collect()
}

/// Returns true for the characters of names: `[\w+=,.@-]`.
pub fn is_of_names(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_+=,.@-".contains(c)
}

/// Checks the name of a user, group, role, policy or session.
///
/// # Errors
/// [`Error::InvalidName`].
pub fn check_name(what: &str, name: &str, longest: usize) -> Result<(), Error> {
    if name.is_empty() || name.len() > longest || !name.chars().all(is_of_names) {
        let why = format!(
            "The specified value for {what} is invalid. It must contain only alphanumeric \
             characters and/or the following: +=,.@_- and at most {longest} of them"
        );
        return Err(Error::InvalidName(why));
    }
    Ok(())
}

/// The path of users, groups, roles and policies that have no other.
pub const ROOT_PATH: &str = "/";

/// Checks a path: `/`, or visible characters of ASCII between two slashes.
///
/// # Errors
/// [`Error::InvalidName`].
pub fn check_path(path: &str) -> Result<(), Error> {
    let plain = |c: char| ('!'..='~').contains(&c);
    let enclosed =
        path == ROOT_PATH || (path.starts_with('/') && path.ends_with('/') && path.len() > 2);
    if !enclosed || path.len() > MAX_PATH || path.contains("//") || !path.chars().all(plain) {
        let why = "The specified value for path is invalid. It must begin and end with / and \
                   contain only visible characters of ASCII";
        return Err(Error::InvalidName(why.into()));
    }
    Ok(())
}

/// Returns the name of a managed policy of this account, by ARN.
pub fn managed_policy_arn(text: &str) -> Option<&str> {
    let rest = text.strip_prefix(&arn("policy", ROOT_PATH, ""))?;
    rest.rsplit('/').next().filter(|name| !name.is_empty())
}

/// Returns the name of an identity provider: host and path of its issuer's URL, in lower case.
///
/// # Errors
/// [`Error::InvalidName`]: the URL has to begin with `https://`, or with `http://` and an address of
/// this machine.
pub fn provider_of_url(url: &str) -> Result<String, Error> {
    let refuse = |why: &str| {
        Err(Error::InvalidName(format!(
            "Invalid Open ID Connect Provider URL: {why}"
        )))
    };
    let (rest, plain_http) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => (rest, false),
        (None, Some(rest)) => (rest, true),
        (None, None) => return refuse("it must begin with https://"),
    };
    let rest = rest.trim_end_matches('/');
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:/~".contains(c);
    if rest.is_empty() || rest.len() > MAX_PROVIDER || !rest.chars().all(plain) {
        return refuse("it must be a host and a path, without a query");
    }
    let host = rest.split('/').next().unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    if plain_http && !["127.0.0.1", "localhost"].contains(&name) {
        return refuse("it must begin with https://");
    }
    Ok(rest.to_ascii_lowercase())
}
