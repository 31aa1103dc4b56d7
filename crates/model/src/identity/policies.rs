//! Policies of identities, and what they are attached to.
//!
//! Source: AWS, "Managed policies and inline policies", "Versioning IAM policies" and "IAM and AWS
//! STS quotas".

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use archipel_access::identity::Named;
use archipel_access::{Malformed, Policy};
use archipel_base::Id;
use serde::{Deserialize, Serialize};

use super::names::{self, ROOT_PATH};
use crate::object::Tags;

/// A policy of an identity: the text as it was sent. It is read once.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct IdentityPolicy {
    text: String,
    policy: Arc<Policy>,
}

impl From<String> for IdentityPolicy {
    fn from(text: String) -> IdentityPolicy {
        IdentityPolicy {
            policy: Arc::new(Policy::stored_identity(&text)),
            text,
        }
    }
}

impl From<IdentityPolicy> for String {
    fn from(policy: IdentityPolicy) -> String {
        policy.text
    }
}

impl PartialEq for IdentityPolicy {
    fn eq(&self, other: &IdentityPolicy) -> bool {
        self.text == other.text
    }
}

impl IdentityPolicy {
    /// Reads a policy.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(text: &str) -> Result<IdentityPolicy, Malformed> {
        Ok(IdentityPolicy {
            policy: Arc::new(Policy::parse_identity(text)?),
            text: text.to_owned(),
        })
    }

    /// Returns the text as it was sent.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// Returns the size that counts against limits: without white space.
    pub fn size(&self) -> usize {
        self.text.chars().filter(|c| !c.is_whitespace()).count()
    }
}

/// The policy that says who may assume a role.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "StoredTrust", into = "StoredTrust")]
pub struct TrustPolicy {
    text: String,
    /// The users, keys and roles that the policy names, each with its incarnation.
    named: BTreeMap<String, Id>,
    policy: Arc<Policy>,
}

#[derive(Serialize, Deserialize)]
struct StoredTrust {
    #[serde(rename = "t")]
    text: String,
    #[serde(rename = "k", default)]
    named: BTreeMap<String, Id>,
}

impl From<StoredTrust> for TrustPolicy {
    fn from(stored: StoredTrust) -> TrustPolicy {
        TrustPolicy {
            policy: Arc::new(Policy::stored_trust(&stored.text)),
            text: stored.text,
            named: stored.named,
        }
    }
}

impl From<TrustPolicy> for StoredTrust {
    fn from(trust: TrustPolicy) -> StoredTrust {
        StoredTrust {
            text: trust.text,
            named: trust.named,
        }
    }
}

impl PartialEq for TrustPolicy {
    fn eq(&self, other: &TrustPolicy) -> bool {
        (&self.text, &self.named) == (&other.text, &other.named)
    }
}

impl TrustPolicy {
    /// Makes a policy that was read from this text, with the incarnations of those whom it names.
    pub fn new(text: String, policy: Policy, named: BTreeMap<String, Id>) -> TrustPolicy {
        TrustPolicy {
            text,
            named,
            policy: Arc::new(policy),
        }
    }

    /// Returns the text as it was sent.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the incarnations of those whom the policy names.
    pub fn named(&self) -> &BTreeMap<String, Id> {
        &self.named
    }
}

/// The policies of a user, group or role.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Held {
    /// Those that only it has, by name.
    #[serde(rename = "i", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inline: BTreeMap<String, IdentityPolicy>,
    /// Managed policies.
    #[serde(rename = "a", default, skip_serializing_if = "BTreeSet::is_empty")]
    pub attached: BTreeSet<PolicyRef>,
}

/// A managed policy that is attached.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct PolicyRef {
    /// The ARN.
    #[serde(rename = "n")]
    pub arn: String,
    /// The incarnation.
    #[serde(rename = "i", default)]
    pub incarnation: Id,
}

impl PolicyRef {
    /// Makes a reference to a policy.
    pub fn to(policy: &ManagedPolicy) -> PolicyRef {
        PolicyRef {
            arn: policy.arn(),
            incarnation: policy.incarnation,
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.arn.rsplit('/').next().unwrap_or_default()
    }

    /// Returns true for a policy that every cluster has.
    pub(crate) fn is_built_in(&self) -> bool {
        self.arn.starts_with(BUILT_IN_ARN)
    }
}

/// An entity that policies can be attached to.
pub trait Attached: super::Entity {
    /// Returns the policies.
    fn held(&self) -> &Held;
    /// Returns the policies, to be changed.
    fn held_mut(&mut self) -> &mut Held;
    /// Returns the path.
    fn path(&self) -> &str;
    /// The first letters of unique ids.
    const PREFIX: &'static str;
    /// The most characters of all inline policies together, without white space.
    const INLINE_CHARS: usize;

    /// Returns the unique id.
    fn id(&self) -> String {
        names::unique_id(Self::PREFIX, self.incarnation())
    }

    /// Returns the ARN.
    fn arn(&self) -> String {
        archipel_access::principal::arn(Self::WHAT, self.path(), self.name())
    }
}

macro_rules! attached {
    ($($type:ident $prefix:literal $chars:literal,)*) => {$(
        impl Attached for super::$type {
            const PREFIX: &'static str = $prefix;
            const INLINE_CHARS: usize = $chars;

            fn held(&self) -> &Held {
                &self.held
            }

            fn held_mut(&mut self) -> &mut Held {
                &mut self.held
            }

            fn path(&self) -> &str {
                &self.path
            }
        }
    )*};
}

attached! {
    User "AIDA" 2048,
    Group "AGPA" 5120,
    Role "AROA" 10240,
}

/// One version of a managed policy.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PolicyVersion {
    /// The policy.
    #[serde(rename = "p")]
    pub policy: IdentityPolicy,
    /// The time of creation in milliseconds since 1970.
    #[serde(rename = "c", default)]
    pub created_ms: u64,
}

/// A policy that can be attached to several users, groups and roles.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ManagedPolicy {
    /// The name.
    pub name: String,
    /// The path, from slash to slash.
    #[serde(default)]
    pub path: String,
    /// The description.
    #[serde(default)]
    pub description: String,
    /// The time of creation in milliseconds since 1970.
    #[serde(default)]
    pub created_ms: u64,
    /// The time of the last change of its versions.
    #[serde(default)]
    pub changed_ms: u64,
    /// The random identity.
    #[serde(default)]
    pub incarnation: Id,
    /// The number of references to it that were confirmed.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub(crate) confirmed: u64,
    /// The versions, by number.
    pub versions: BTreeMap<u32, PolicyVersion>,
    /// The version that counts.
    pub default: u32,
    /// The number of the newest version that there was.
    #[serde(default)]
    pub newest: u32,
    /// The tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Tags,
}

impl ManagedPolicy {
    /// Returns the unique id.
    pub fn id(&self) -> String {
        names::unique_id("ANPA", self.incarnation)
    }

    /// Returns the ARN.
    pub fn arn(&self) -> String {
        match self.is_built_in() {
            true => built_in_arn(&self.name),
            false => archipel_access::principal::arn("policy", &self.path, &self.name),
        }
    }

    /// Returns true for a policy that every cluster has.
    pub fn is_built_in(&self) -> bool {
        ManagedPolicy::built_in(&self.name)
            .is_some_and(|policy| policy.incarnation == self.incarnation)
    }

    /// Returns the policy of that name that every cluster has. Names are not told apart by case.
    pub fn built_in(name: &str) -> Option<&'static ManagedPolicy> {
        BUILT_IN
            .iter()
            .find(|policy| policy.name.eq_ignore_ascii_case(name))
    }

    /// Returns the version that counts. A policy without it denies everything.
    pub fn current(&self) -> Arc<Policy> {
        let version = self.versions.get(&self.default);
        match version {
            Some(version) => version.policy.policy().clone(),
            None => Arc::new(Policy::unreadable()),
        }
    }

    /// Returns the policy and its name.
    pub(crate) fn named(&self) -> Named {
        (self.name.clone(), self.current())
    }
}

/// The beginning of the ARNs of policies that every cluster has.
const BUILT_IN_ARN: &str = "arn:aws:iam::aws:policy/";

fn built_in_arn(name: &str) -> String {
    format!("{BUILT_IN_ARN}{name}")
}

/// The managed policies that every cluster has, under the names and ARNs that they have in AWS.
pub static BUILT_IN: LazyLock<Vec<ManagedPolicy>> = LazyLock::new(|| {
    let s3 = r#"["arn:aws:s3:::*"]"#;
    let all = [
        ("AdministratorAccess", r#""*""#, r#""*""#),
        ("AmazonS3FullAccess", r#""s3:*""#, s3),
        ("AmazonS3ReadOnlyAccess", r#"["s3:Get*", "s3:List*"]"#, s3),
        ("IAMFullAccess", r#"["iam:*"]"#, r#""*""#),
        (
            "IAMReadOnlyAccess",
            r#"["iam:Get*", "iam:List*"]"#,
            r#""*""#,
        ),
    ];
    let numbered = all.into_iter().enumerate();
    let policy = |(number, (name, action, resource)): (usize, (&str, &str, &str))| {
        let text = format!(
            r#"{{"Version": "2012-10-17", "Statement": [{{"Effect": "Allow", "Action": {action}, "Resource": {resource}}}]}}"#
        );
        let version = PolicyVersion {
            policy: text.into(),
            created_ms: 0,
        };
        let mut incarnation = Id::default();
        incarnation.0[15] = number as u8 + 1;
        ManagedPolicy {
            name: name.to_owned(),
            path: ROOT_PATH.to_owned(),
            description: String::new(),
            created_ms: 0,
            changed_ms: 0,
            incarnation,
            confirmed: 0,
            versions: BTreeMap::from([(1, version)]),
            default: 1,
            newest: 1,
            tags: Tags::new(),
        }
    };
    numbered.map(policy).collect()
});
