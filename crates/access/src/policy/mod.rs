//! Policies: reading them, and matching requests against their statements.
//!
//! Source: AWS, "IAM JSON policy elements reference" and "Grammar of the IAM JSON policy language".

mod read;

use crate::action::ActionSet;
use crate::condition::Condition;
use crate::context::Context;
use crate::malformed::Malformed;
use crate::pattern::Template;
use crate::principal::{Principal, Principals};

/// The largest policy, in bytes.
pub const MAX_POLICY_BYTES: usize = 20 << 10;

/// The kind of entity that a policy is attached to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind<'a> {
    /// A bucket: one of this name, if the policy is to be checked.
    Bucket(Option<&'a str>),
    /// A user, a group, a role or a session. It names no principal.
    Identity,
    /// A role: it says who may assume the role. It names no resource.
    Trust,
}

/// A policy.
#[derive(Clone, PartialEq, Debug)]
pub struct Policy {
    statements: Vec<Statement>,
    public: bool,
}

/// The effect of a statement on the requests that it matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    Allow,
    Deny,
}

/// A list, or everything but the list.
#[derive(Clone, PartialEq, Debug)]
enum Listed<T> {
    Is(T),
    Not(T),
}

#[derive(Clone, PartialEq, Debug)]
struct Statement {
    sid: Option<String>,
    effect: Effect,
    principals: Listed<Principals>,
    actions: ActionSet,
    resources: Listed<Vec<Template>>,
    conditions: Vec<Condition>,
}

impl Policy {
    /// Reads the policy of a bucket and checks that it can apply to the bucket.
    ///
    /// # Errors
    /// [`Malformed`], with the place.
    pub fn parse(text: &str, bucket: &str) -> Result<Policy, Malformed> {
        Policy::read(text, Kind::Bucket(Some(bucket)))
    }

    /// Reads a policy that was checked when it was stored. A policy that cannot be read denies
    /// everything.
    pub fn stored(text: &str) -> Policy {
        Policy::read(text, Kind::Bucket(None)).unwrap_or_else(|_| Policy::unreadable())
    }

    /// Reads the policy of a user, a group, a role or a session.
    ///
    /// # Errors
    /// [`Malformed`], with the place.
    pub fn parse_identity(text: &str) -> Result<Policy, Malformed> {
        Policy::read(text, Kind::Identity)
    }

    /// Reads the policy of an identity as [`stored`](Policy::stored) does.
    pub fn stored_identity(text: &str) -> Policy {
        Policy::parse_identity(text).unwrap_or_else(|_| Policy::unreadable())
    }

    /// Reads the policy that says who may assume a role.
    ///
    /// # Errors
    /// [`Malformed`], with the place.
    pub fn parse_trust(text: &str) -> Result<Policy, Malformed> {
        Policy::read(text, Kind::Trust)
    }

    /// Reads the trust policy of a role as [`stored`](Policy::stored) does.
    pub fn stored_trust(text: &str) -> Policy {
        Policy::parse_trust(text).unwrap_or_else(|_| Policy::unreadable())
    }

    fn read(text: &str, kind: Kind<'_>) -> Result<Policy, Malformed> {
        if text.len() > MAX_POLICY_BYTES {
            let why = format!(
                "Policy exceeds the maximum allowed document size of {MAX_POLICY_BYTES} bytes"
            );
            return Err(Malformed::whole(why));
        }
        let what = "Policies must be valid JSON and the first byte must be '{'";
        if !text.starts_with('{') {
            return Err(Malformed::whole(what));
        }
        let json = serde_json::from_str(text)
            .map_err(|error| Malformed::whole(format!("{what}: {error}")))?;
        let policy = read::statements(&json, kind)?;
        Ok(Policy {
            public: policy.iter().any(Statement::is_public),
            statements: policy,
        })
    }

    /// Returns the policy that stands for one that cannot be read: it denies everything.
    pub fn unreadable() -> Policy {
        let everyone = Principals {
            everyone: true,
            ..Principals::default()
        };
        let nothing: Listed<Vec<Template>> = Listed::Not(Vec::new());
        Policy {
            statements: vec![Statement {
                sid: Some("the policy cannot be read".into()),
                effect: Effect::Deny,
                principals: Listed::Is(everyone),
                actions: ActionSet::default().inverse(),
                resources: nothing,
                conditions: Vec::new(),
            }],
            public: false,
        }
    }

    /// Returns true if the policy allows anything to everybody: see [`Statement::is_public`].
    pub fn is_public(&self) -> bool {
        self.public
    }

    /// Returns true if a statement depends on a condition key that begins so, by a condition or by
    /// a variable. The key is in lower case.
    pub fn depends_on(&self, key: &str) -> bool {
        let mut keys = self.statements.iter().flat_map(Statement::keys);
        keys.any(|other| other.starts_with(key))
    }

    /// Returns the users that the policy names, by name or unique id.
    pub fn users(&self) -> impl Iterator<Item = &str> {
        let named = self.statements.iter().map(Statement::principals);
        named.flat_map(|named| named.users.iter().map(String::as_str))
    }

    /// Returns the roles that the policy names, by path and name.
    pub fn roles(&self) -> impl Iterator<Item = &str> {
        let named = self.statements.iter().map(Statement::principals);
        named.flat_map(|named| named.roles.iter().map(String::as_str))
    }

    /// Returns the roles whose sessions the policy names by themselves, by name: sessions have no
    /// path.
    pub fn roles_of_sessions(&self) -> impl Iterator<Item = &str> {
        let named = self.statements.iter().map(Statement::principals);
        let sessions = named.flat_map(|named| &named.sessions);
        sessions.filter_map(|session| Some(session.split_once('/')?.0))
    }

    /// Returns the canonical user ids that the policy names.
    pub fn canonical_users(&self) -> impl Iterator<Item = &str> {
        let named = self.statements.iter().map(Statement::principals);
        named.flat_map(|named| named.canonical.iter().map(String::as_str))
    }

    /// Returns the name of the first statement of this effect that matches.
    pub(crate) fn find(&self, effect: Effect, asked: &Asked<'_>) -> Option<String> {
        self.find_if(effect, asked, |_| true)
    }

    /// Returns the name of the first statement that allows what is asked to the session of a role
    /// by its own name.
    pub(crate) fn find_for_session(&self, asked: &Asked<'_>) -> Option<String> {
        self.find_if(Effect::Allow, asked, |statement| {
            matches!(&statement.principals,
                Listed::Is(named) if named.names_session(asked.principal))
        })
    }

    /// Returns the name of the first statement that allows what is asked to the account, so that
    /// the policies of the principal decide.
    pub(crate) fn find_for_account(&self, asked: &Asked<'_>) -> Option<String> {
        let mut statements = self.statements.iter().enumerate();
        let found = statements.find(|(_, statement)| {
            statement.effect == Effect::Allow
                && statement.principals().names_account_of(asked.principal)
                && statement.matches_besides_principal(asked)
        });
        found.map(|(number, statement)| statement.name(number))
    }

    fn find_if(
        &self,
        effect: Effect,
        asked: &Asked<'_>,
        fits: impl Fn(&Statement) -> bool,
    ) -> Option<String> {
        let mut statements = self.statements.iter().enumerate();
        let found = statements.find(|(_, s)| s.effect == effect && s.matches(asked) && fits(s));
        found.map(|(number, statement)| statement.name(number))
    }
}

/// A request, as policies judge it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub principal: Principal<'a>,
    pub action: crate::Action,
    /// The ARN of the resource.
    pub resource: &'a str,
    pub context: &'a Context,
}

impl Statement {
    fn principals(&self) -> &Principals {
        let (Listed::Is(principals) | Listed::Not(principals)) = &self.principals;
        principals
    }

    /// Returns the name for people: the `Sid`, or the place.
    fn name(&self, number: usize) -> String {
        match &self.sid {
            Some(sid) => sid.clone(),
            None => format!("Statement[{number}]"),
        }
    }

    /// Returns the condition keys on which the statement depends, in lower case.
    fn keys(&self) -> impl Iterator<Item = &str> {
        let (Listed::Is(resources) | Listed::Not(resources)) = &self.resources;
        let of_resources = resources.iter().flat_map(Template::variables);
        let of_conditions = self.conditions.iter().flat_map(Condition::keys);
        of_resources.chain(of_conditions)
    }

    fn matches(&self, asked: &Asked<'_>) -> bool {
        self.actions.has(asked.action)
            && self.applies_to(asked.principal)
            && self.matches_besides_principal(asked)
    }

    fn matches_besides_principal(&self, asked: &Asked<'_>) -> bool {
        self.actions.has(asked.action)
            && self.covers(asked.resource, asked.context)
            && self.conditions.iter().all(|c| c.holds(asked.context))
    }

    /// Returns true if the statement is about the principal.
    ///
    /// A statement that allows something to the account only lets the account's own policies
    /// decide, so it allows nothing to a user by itself. `NotPrincipal` spares only principals that
    /// it names themselves.
    fn applies_to(&self, principal: Principal<'_>) -> bool {
        match (&self.principals, self.effect) {
            (Listed::Is(named), Effect::Allow) => named.names(principal),
            (Listed::Is(named), Effect::Deny) => named.names_or_account(principal),
            (Listed::Not(named), _) => !named.names(principal),
        }
    }

    fn covers(&self, resource: &str, context: &Context) -> bool {
        let any = |templates: &[Template]| {
            let mut templates = templates.iter();
            templates.any(|template| template.matches(context, resource))
        };
        match &self.resources {
            Listed::Is(templates) => any(templates),
            // A variable without a value excludes nothing. An exclusion that is not known must not
            // widen what is allowed.
            Listed::Not(templates) => {
                let known = |template: &Template| template.has_values(context);
                !any(templates) && (self.effect == Effect::Deny || templates.iter().all(known))
            }
        }
    }

    /// Returns true if the statement allows something to everybody, without a condition that fixes
    /// from where or by whom.
    ///
    /// Source: AWS, "The meaning of 'public'" in "Blocking public access".
    fn is_public(&self) -> bool {
        self.effect == Effect::Allow
            && self.principals().everyone
            && !self.conditions.iter().any(Condition::confines)
    }
}
