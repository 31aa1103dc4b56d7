//! Policies: reading them, and matching requests against their statements.
//!
//! Source: AWS, "IAM JSON policy elements reference" and "Grammar of the IAM JSON policy language".

mod read;

use crate::action::ActionSet;
use crate::condition::Condition;
use crate::context::Context;
use crate::decision::Request;
use crate::malformed::Malformed;
use crate::pattern::{self, Template};
use crate::principal::{Principal, Principals};

/// The largest bucket policy, in bytes.
pub const MAX_POLICY_BYTES: usize = 20 << 10;

/// The beginning of the ARNs of buckets and objects.
const ARN: &str = "arn:aws:s3:::";

/// A policy on a bucket.
#[derive(Clone, PartialEq, Debug)]
pub struct Policy {
    statements: Vec<Statement>,
    public: bool,
}

/// What a statement says of the requests that it matches.
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
        Policy::read(text, Some(bucket))
    }

    /// Reads a policy that was checked when it was stored. A policy that cannot be read denies
    /// everything.
    pub fn stored(text: &str) -> Policy {
        Policy::read(text, None).unwrap_or_else(|_| Policy::unreadable())
    }

    fn read(text: &str, bucket: Option<&str>) -> Result<Policy, Malformed> {
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
        let policy = read::statements(&json, bucket)?;
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

    /// Returns true if a condition depends on a key that begins so. The key is in lower case.
    pub fn depends_on(&self, key: &str) -> bool {
        let mut conditions = self.statements.iter().flat_map(|s| &s.conditions);
        conditions.any(|condition| condition.key().starts_with(key))
    }

    /// Returns the users that the policy names, by name or unique id.
    pub fn users(&self) -> impl Iterator<Item = &str> {
        let named = self.statements.iter().map(Statement::principals);
        named.flat_map(|named| named.users.iter().map(String::as_str))
    }

    /// Returns the canonical user ids that the policy names.
    pub fn canonical_users(&self) -> impl Iterator<Item = &str> {
        let named = self.statements.iter().map(Statement::principals);
        named.flat_map(|named| named.canonical.iter().map(String::as_str))
    }

    /// Returns the name of the first statement of this effect that matches a request.
    pub(crate) fn find(&self, effect: Effect, request: &Request<'_>) -> Option<String> {
        let of_effect = |statement: &Statement| statement.effect == effect;
        let resource = resource(request);
        let mut statements = self.statements.iter().enumerate();
        let found = statements.find(|(_, s)| of_effect(s) && s.matches(request, &resource));
        found.map(|(number, statement)| match &statement.sid {
            Some(sid) => sid.clone(),
            None => format!("Statement[{number}]"),
        })
    }
}

/// The ARN of the resource of a request.
fn resource(request: &Request<'_>) -> String {
    match request.key {
        Some(key) => format!("{ARN}{}/{key}", request.bucket),
        None => format!("{ARN}{}", request.bucket),
    }
}

impl Statement {
    fn principals(&self) -> &Principals {
        let (Listed::Is(principals) | Listed::Not(principals)) = &self.principals;
        principals
    }

    fn matches(&self, request: &Request<'_>, resource: &str) -> bool {
        self.actions.has(request.action)
            && self.applies_to(request.principal)
            && self.covers(resource, request.context)
            && self.conditions.iter().all(|c| c.holds(request.context))
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
            let mut patterns = templates.iter().filter_map(|t| t.resolve(context));
            patterns.any(|pattern| pattern::matches(&pattern, resource))
        };
        match &self.resources {
            Listed::Is(templates) => any(templates),
            Listed::Not(templates) => !any(templates),
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
