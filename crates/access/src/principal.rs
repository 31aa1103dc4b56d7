//! Who asks, and how policies name principals.
//!
//! The cluster is one account, [`ACCOUNT`]. Each access key is a user of its own: the user's name
//! and unique id are the id of the access key.

use crate::json::Json;
use crate::malformed::Malformed;

/// The account number of every cluster.
pub const ACCOUNT: &str = "000000000000";

/// The most principals of a statement.
const MAX_PRINCIPALS: usize = 500;

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Principal<'a> {
    /// A client that does not say who it is.
    Anonymous,
    /// A user: an access key.
    User {
        /// The id of the access key.
        name: &'a str,
        /// The canonical user id, if it is known.
        canonical_id: Option<&'a str>,
    },
}

impl Principal<'_> {
    /// Returns the ARN that names a user: `arn:aws:iam::000000000000:user/NAME`.
    pub fn arn(&self) -> Option<String> {
        match self {
            Principal::Anonymous => None,
            Principal::User { name, .. } => Some(user_arn(name)),
        }
    }
}

/// Returns the ARN of a user.
pub fn user_arn(name: &str) -> String {
    format!("arn:aws:iam::{ACCOUNT}:user/{name}")
}

/// The principals that an element names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Principals {
    /// `*`: everybody, anonymous clients too.
    pub everyone: bool,
    /// The account.
    pub account: bool,
    /// Users, by name or unique id.
    pub users: Vec<String>,
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
        if all.users.len() + all.canonical.len() > MAX_PRINCIPALS {
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
        let Some(arn) = name.strip_prefix("arn:aws:iam::") else {
            return self.add_user(name, name);
        };
        match arn
            .strip_prefix(ACCOUNT)
            .and_then(|rest| rest.strip_prefix(':'))
        {
            Some("root") => self.account = true,
            Some(rest) => match rest.strip_prefix("user/") {
                Some(user) => self.add_user(user, name)?,
                None => return Err(format!("{name:?} names no user")),
            },
            None => return Err(format!("{name:?} is not in the account {ACCOUNT}")),
        }
        Ok(())
    }

    fn add_user(&mut self, user: &str, written: &str) -> Result<(), String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        if user.is_empty() || !user.chars().all(plain) {
            return Err(format!("{written:?} names no user, account or everybody"));
        }
        self.users.push(user.to_owned());
        Ok(())
    }

    /// Returns true if the element names the principal itself: as a user, or as everybody.
    pub fn names(&self, principal: Principal<'_>) -> bool {
        self.everyone
            || match principal {
                Principal::Anonymous => false,
                Principal::User { name, canonical_id } => {
                    self.users.iter().any(|user| user == name)
                        || canonical_id.is_some_and(|id| self.canonical.iter().any(|c| c == id))
                }
            }
    }

    /// Returns true if the element names the principal or its account.
    pub fn names_or_account(&self, principal: Principal<'_>) -> bool {
        self.names(principal) || (self.account && principal != Principal::Anonymous)
    }
}
