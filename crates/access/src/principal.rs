//! Principals, and how policies name them.
//!
//! The cluster is one account, [`ACCOUNT`]. An access key belongs to a user, or is a user of its
//! own whose name and unique id are the id of the access key.

use crate::json::Json;
use crate::malformed::Malformed;

/// The account number of every cluster.
pub const ACCOUNT: &str = "000000000000";

/// The most principals of a statement.
const MAX_PRINCIPALS: usize = 500;

/// The sender of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Principal<'a> {
    /// A client that does not say who it is.
    Anonymous,
    /// A user.
    User {
        /// The name: that of the user, or the id of an access key that is a user of its own.
        name: &'a str,
        /// The path, from slash to slash: `/` for most. Policies are compared without its first
        /// slash.
        path: &'a str,
        /// The unique id.
        id: &'a str,
        /// The canonical user id, if it is known.
        canonical_id: Option<&'a str>,
    },
    /// A session of a role.
    Role {
        /// The name of the role.
        name: &'a str,
        /// The path of the role.
        path: &'a str,
        /// The unique id of the role.
        id: &'a str,
        /// The name of the session.
        session: &'a str,
    },
    /// A person for whom an identity provider vouches, before a role is assumed.
    Federated {
        /// The provider's host and path.
        provider: &'a str,
    },
}

impl<'a> Principal<'a> {
    /// Makes the principal of an access key that is a user of its own.
    pub fn of_key(id: &'a str) -> Principal<'a> {
        Principal::User {
            name: id,
            path: "/",
            id,
            canonical_id: None,
        }
    }

    /// Returns the ARN of the principal: `arn:aws:iam::000000000000:user/NAME`, or
    /// `arn:aws:sts::000000000000:assumed-role/NAME/SESSION`.
    pub fn arn(&self) -> Option<String> {
        match self {
            Principal::Anonymous | Principal::Federated { .. } => None,
            Principal::User { name, path, .. } => Some(arn("user", path, name)),
            Principal::Role { name, session, .. } => Some(session_arn(name, session)),
        }
    }

    /// Returns the ARN of the user or role, whose policies count.
    pub fn identity_arn(&self) -> Option<String> {
        match self {
            Principal::Role { name, path, .. } => Some(arn("role", path, name)),
            other => other.arn(),
        }
    }
}

/// Returns the ARN of a user, group, role or policy: `arn:aws:iam::000000000000:KIND/PATH/NAME`.
pub fn arn(kind: &str, path: &str, name: &str) -> String {
    format!("arn:aws:iam::{ACCOUNT}:{kind}{path}{name}")
}

/// Returns the ARN of a session of a role.
pub fn session_arn(role: &str, session: &str) -> String {
    format!("arn:aws:sts::{ACCOUNT}:assumed-role/{role}/{session}")
}

/// Returns the ARN of an identity provider, by host and path.
pub fn provider_arn(provider: &str) -> String {
    format!("arn:aws:iam::{ACCOUNT}:oidc-provider/{provider}")
}

/// The principals that an element names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Principals {
    /// `*`: everybody, anonymous clients too.
    pub everyone: bool,
    /// The account.
    pub account: bool,
    /// Users, by path and name, or by unique id.
    pub users: Vec<String>,
    /// Roles, by path and name.
    pub roles: Vec<String>,
    /// Sessions of roles, by names of role and session.
    pub sessions: Vec<String>,
    /// Identity providers, by host and path.
    pub providers: Vec<String>,
    /// True if services of AWS are named, which nobody here is.
    pub services: bool,
    /// Users, by canonical user id.
    pub canonical: Vec<String>,
}

impl Principals {
    /// Reads the value of `Principal` or `NotPrincipal`.
    pub fn parse(value: &Json, at: &str) -> Result<Principals, Malformed> {
        let mut all = Principals::default();
        let members = match value {
            Json::String(text) if text == "*" => {
                all.everyone = true;
                return Ok(all);
            }
            Json::Object(members) if !members.is_empty() => members,
            _ => {
                return Err(Malformed::principal(
                    at,
                    "it is neither \"*\" nor an object",
                ));
            }
        };
        for (kind, value) in members {
            let at = format!("{at}.{kind}");
            let names = value.texts().filter(|names| !names.is_empty());
            let names = names.ok_or_else(|| {
                Malformed::principal(&at, "it is neither a text nor a list of texts")
            })?;
            for name in names {
                all.add(kind, name)
                    .map_err(|why| Malformed::principal(&at, &why))?;
            }
        }
        let named = [&all.users, &all.canonical, &all.roles, &all.sessions];
        if named.iter().map(|names| names.len()).sum::<usize>() + all.providers.len()
            > MAX_PRINCIPALS
        {
            let why = format!("a statement names at most {MAX_PRINCIPALS} principals");
            return Err(Malformed::principal(at, &why));
        }
        Ok(all)
    }

    fn add(&mut self, kind: &str, name: &str) -> Result<(), String> {
        match kind {
            "AWS" => self.add_aws(name),
            "CanonicalUser" => {
                if name.len() != 64 || !name.bytes().all(|b| b.is_ascii_hexdigit()) {
                    return Err(format!("{name:?} is no canonical user id"));
                }
                self.canonical.push(name.to_ascii_lowercase());
                Ok(())
            }
            "Federated" => {
                let provider = name.strip_prefix(&provider_arn(""));
                let provider = provider.filter(|provider| !provider.is_empty());
                let wrong = || format!("{name:?} is no identity provider of this account");
                self.providers
                    .push(provider.ok_or_else(wrong)?.to_ascii_lowercase());
                Ok(())
            }
            "Service" if name.ends_with(".amazonaws.com") => {
                self.services = true;
                Ok(())
            }
            _ => Err(format!(
                "principals of the kind {kind:?} are not known here"
            )),
        }
    }

    fn add_aws(&mut self, name: &str) -> Result<(), String> {
        if name == "*" {
            self.everyone = true;
            return Ok(());
        }
        if name == ACCOUNT {
            self.account = true;
            return Ok(());
        }
        let sessions = format!("arn:aws:sts::{ACCOUNT}:assumed-role/");
        if let Some(session) = name.strip_prefix(&sessions) {
            return self.add_session(session, name);
        }
        let Some(arn) = name.strip_prefix("arn:aws:iam::") else {
            return self.add_user(name, name);
        };
        let Some(named) = arn
            .strip_prefix(ACCOUNT)
            .and_then(|rest| rest.strip_prefix(':'))
        else {
            return Err(format!("{name:?} is not in the account {ACCOUNT}"));
        };
        match (named, named.split_once('/')) {
            ("root", _) => self.account = true,
            (_, Some(("user", user))) => self.add_user(user, name)?,
            (_, Some(("role", role))) if is_plain(role) => self.roles.push(role.to_owned()),
            _ => return Err(format!("{name:?} names no user and no role")),
        }
        Ok(())
    }

    fn add_user(&mut self, user: &str, written: &str) -> Result<(), String> {
        if !is_plain(user) {
            return Err(format!("{written:?} names no user, account or everybody"));
        }
        self.users.push(user.to_owned());
        Ok(())
    }

    fn add_session(&mut self, session: &str, written: &str) -> Result<(), String> {
        if session.split('/').count() != 2 || !is_plain(session) {
            return Err(format!("{written:?} names no session of a role"));
        }
        self.sessions.push(session.to_owned());
        Ok(())
    }

    /// Returns true if the element names the principal itself: as a user, role or session, or as
    /// everybody.
    pub fn names(&self, principal: Principal<'_>) -> bool {
        self.everyone
            || self.names_session(principal)
            || match principal {
                Principal::Anonymous => false,
                Principal::User {
                    name,
                    path,
                    id,
                    canonical_id,
                } => {
                    has(&self.users, path, name)
                        || self.users.iter().any(|user| user == id)
                        || canonical_id.is_some_and(|id| self.canonical.iter().any(|c| c == id))
                }
                Principal::Role { name, path, id, .. } => {
                    has(&self.roles, path, name) || self.users.iter().any(|user| user == id)
                }
                Principal::Federated { provider } => {
                    self.providers.iter().any(|named| named == provider)
                }
            }
    }

    /// Returns true if the element names the session of a role itself, not only the role.
    pub fn names_session(&self, principal: Principal<'_>) -> bool {
        match principal {
            Principal::Role { name, session, .. } => self
                .sessions
                .iter()
                .any(|named| named.split_once('/') == Some((name, session))),
            _ => false,
        }
    }

    /// Returns true if the element names the account to which the principal belongs.
    pub fn names_account_of(&self, principal: Principal<'_>) -> bool {
        let is_inside = matches!(principal, Principal::User { .. } | Principal::Role { .. });
        self.account && is_inside
    }

    /// Returns true if the element names the principal or its account.
    pub fn names_or_account(&self, principal: Principal<'_>) -> bool {
        self.names(principal) || self.names_account_of(principal)
    }
}

/// Returns true if a list has a path and name: `path/name`.
fn has(list: &[String], path: &str, name: &str) -> bool {
    let path = path.strip_prefix('/').unwrap_or(path);
    let mut rests = list.iter().filter_map(|named| named.strip_prefix(path));
    rests.any(|rest| rest == name)
}

/// Returns true for text that can name users and roles, with their paths.
fn is_plain(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.+=,@/".contains(c);
    !text.is_empty() && text.chars().all(plain) && !text.starts_with('/') && !text.ends_with('/')
}
