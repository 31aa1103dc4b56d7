//! The decision.
//!
//! Source: AWS, "Policy evaluation logic" and "How Amazon S3 authorizes a request".

use std::fmt;

use crate::acl::{Acl, Ownership, PublicAccessBlock};
use crate::action::{Action, Level};
use crate::context::Context;
use crate::identity::Identity;
use crate::policy::{Asked, Effect, Policy};
use crate::principal::Principal;
use crate::resource::resource_arn;

/// A request of a principal about a bucket or an object.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The principal that asks.
    pub principal: Principal<'a>,
    /// The action that the principal asks for.
    pub action: Action,
    /// The bucket.
    pub bucket: &'a str,
    /// The key; `None` if the action is on the bucket.
    pub key: Option<&'a str>,
    /// The condition keys. They may be empty if the bucket has no policy.
    pub context: &'a Context,
}

/// The permissions that a principal is granted by itself, without a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Grants {
    /// May read the bucket's objects.
    pub read: bool,
    /// May write the bucket's objects.
    pub write: bool,
    /// Owns the bucket.
    pub owner: bool,
    /// May create buckets.
    pub create_buckets: bool,
    /// May list its buckets.
    pub list_buckets: bool,
}

impl Grants {
    fn allow(self, action: Action) -> bool {
        match action.level() {
            Level::Any => self.read || self.write || self.owner,
            Level::Read => self.read,
            Level::Write => self.write,
            Level::Owner => self.owner,
            Level::Never => match action {
                Action::CreateBucket => self.create_buckets,
                // The answer shows only what is allowed on each bucket.
                Action::ListAllMyBuckets | Action::ListenNotification => self.list_buckets,
                _ => false,
            },
        }
    }
}

/// The access settings of a bucket, and the grants and policies of a principal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inputs<'a> {
    /// The permissions that the principal is granted.
    pub grants: Grants,
    /// The policies of the principal.
    pub identity: Option<&'a Identity>,
    /// The bucket's policy.
    pub policy: Option<&'a Policy>,
    /// Which public permissions are blocked.
    pub block: PublicAccessBlock,
    /// The object ownership: it decides if access control lists count.
    pub ownership: Ownership,
    /// The bucket's access control list.
    pub bucket_acl: Acl,
    /// The object's access control list, if the object is known.
    pub object_acl: Option<Acl>,
}

/// The reason why a request is allowed or denied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Owners always manage the bucket's policy, so that nobody is locked out.
    OwnerManagesPolicy,
    /// A statement of the bucket's policy denies it.
    PolicyDenies(String),
    /// A policy of the user, its groups or the role denies it.
    IdentityDenies(String),
    /// A policy of the user, its groups or the role allows it.
    IdentityAllows(String),
    /// A policy of the session denies it.
    SessionDenies(String),
    /// The policies of the session do not allow it.
    SessionLimits,
    /// The policy of the role denies that the principal assumes it.
    TrustDenies(String),
    /// The policy of the role allows that the principal assumes it.
    TrustAllows(String),
    /// The policy of the role does not allow that the principal assumes it.
    NotTrusted,
    /// A grant of the access key includes it.
    Granted(Level),
    /// A statement of the bucket's policy allows it.
    PolicyAllows(String),
    /// A statement would allow it to everybody, but the bucket's Public Access Block keeps
    /// anonymous clients out.
    PublicPolicyRestricted(String),
    /// The access control list of the bucket allows it.
    BucketAcl,
    /// The access control list of the object allows it.
    ObjectAcl,
    /// An access control list would allow it, but the Public Access Block ignores it.
    PublicAclIgnored,
    /// Nothing allows it.
    NothingAllows,
}

/// The answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// The request is allowed.
    Allow(Reason),
    /// The request is denied.
    Deny(Reason),
}

impl Decision {
    /// Returns true if the request is allowed.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Decision::Allow(_))
    }

    /// Returns true if a statement denies the request, or the policies of the session do not reach
    /// so far. Then nothing else can allow it.
    pub fn is_explicit_deny(&self) -> bool {
        use Reason::{IdentityDenies, PolicyDenies, SessionDenies, SessionLimits, TrustDenies};
        matches!(
            self,
            Decision::Deny(
                PolicyDenies(_)
                    | IdentityDenies(_)
                    | SessionDenies(_)
                    | SessionLimits
                    | TrustDenies(_)
            )
        )
    }

    /// Returns the reason.
    pub fn reason(&self) -> &Reason {
        match self {
            Decision::Allow(reason) | Decision::Deny(reason) => reason,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::OwnerManagesPolicy => f.write_str("owners always manage the bucket's policy"),
            Reason::PolicyDenies(name) => write!(f, "the bucket's policy denies it ({name})"),
            Reason::IdentityDenies(name) => {
                write!(f, "a policy of the identity denies it ({name})")
            }
            Reason::IdentityAllows(name) => {
                write!(f, "a policy of the identity allows it ({name})")
            }
            Reason::SessionDenies(name) => {
                write!(f, "the policy of the session denies it ({name})")
            }
            Reason::SessionLimits => f.write_str("the policy of the session does not allow it"),
            Reason::TrustDenies(name) => {
                write!(f, "the trust policy of the role denies it ({name})")
            }
            Reason::TrustAllows(name) => {
                write!(f, "the trust policy of the role allows it ({name})")
            }
            Reason::NotTrusted => f.write_str("the trust policy of the role does not allow it"),
            Reason::Granted(Level::Read) => f.write_str("the access key may read the bucket"),
            Reason::Granted(Level::Write) => f.write_str("the access key may write the bucket"),
            Reason::Granted(Level::Owner) => f.write_str("the access key owns the bucket"),
            Reason::Granted(_) => f.write_str("the access key has a grant"),
            Reason::PolicyAllows(name) => write!(f, "the bucket's policy allows it ({name})"),
            Reason::PublicPolicyRestricted(name) => write!(
                f,
                "the bucket's policy allows it to everybody ({name}), but RestrictPublicBuckets \
                 keeps anonymous clients out"
            ),
            Reason::BucketAcl => f.write_str("the bucket's access control list allows it"),
            Reason::ObjectAcl => f.write_str("the object's access control list allows it"),
            Reason::PublicAclIgnored => f.write_str(
                "an access control list allows it, but IgnorePublicAcls is set for the bucket",
            ),
            Reason::NothingAllows => f.write_str("nothing allows it"),
        }
    }
}

/// Returns the reason if a policy of the principal denies what is asked.
pub(crate) fn denial(identity: &Identity, asked: &Asked<'_>) -> Option<Reason> {
    let by_identity = identity.denies(asked).map(Reason::IdentityDenies);
    by_identity.or_else(|| identity.session_denies(asked).map(Reason::SessionDenies))
}

/// Decides whether a request is allowed.
pub fn decide(request: &Request<'_>, inputs: &Inputs<'_>) -> Decision {
    let of_policy = matches!(
        request.action,
        Action::GetBucketPolicy | Action::PutBucketPolicy | Action::DeleteBucketPolicy
    );
    let resource = resource_arn(request.bucket, request.key);
    let asked = Asked {
        principal: request.principal,
        action: request.action,
        resource: &resource,
        context: request.context,
    };
    if let Some(identity) = inputs.identity
        && let Some(reason) = denial(identity, &asked)
    {
        return Decision::Deny(reason);
    }
    // Nothing below allows more than the session may do, but for a statement that names the
    // session.
    let limited = inputs
        .identity
        .is_some_and(|identity| identity.limits(&asked));
    if of_policy && inputs.grants.owner && !limited {
        return Decision::Allow(Reason::OwnerManagesPolicy);
    }
    let find = |effect| inputs.policy.and_then(|policy| policy.find(effect, &asked));
    if let Some(name) = find(Effect::Deny) {
        return Decision::Deny(Reason::PolicyDenies(name));
    }
    if limited {
        let by_name = inputs.policy.and_then(|p| p.find_for_session(&asked));
        return match by_name {
            Some(name) => Decision::Allow(Reason::PolicyAllows(name)),
            None => Decision::Deny(Reason::SessionLimits),
        };
    }
    if inputs.grants.allow(request.action) {
        return Decision::Allow(Reason::Granted(request.action.level()));
    }
    if let Some(name) = inputs.identity.and_then(|identity| identity.allows(&asked)) {
        return Decision::Allow(Reason::IdentityAllows(name));
    }
    let mut denial = Reason::NothingAllows;
    if let Some(name) = find(Effect::Allow) {
        let is_public = inputs.policy.is_some_and(Policy::is_public);
        let anonymous = request.principal == Principal::Anonymous;
        if !(anonymous && is_public && inputs.block.restrict_public_buckets) {
            return Decision::Allow(Reason::PolicyAllows(name));
        }
        denial = Reason::PublicPolicyRestricted(name);
    }
    by_acls(request, inputs).unwrap_or(Decision::Deny(denial))
}

/// Decides by the access control lists; `None` if none of them allows the request.
fn by_acls(request: &Request<'_>, inputs: &Inputs<'_>) -> Option<Decision> {
    if inputs.ownership == Ownership::BucketOwnerEnforced {
        return None;
    }
    let object_allows = || {
        let acl = inputs.object_acl;
        acl.is_some_and(|acl| acl.allows_on_object(request))
    };
    let reason = match inputs.bucket_acl.allows_on_bucket(request) {
        true => Reason::BucketAcl,
        false if object_allows() => Reason::ObjectAcl,
        false => return None,
    };
    Some(match inputs.block.ignore_public_acls {
        true => Decision::Deny(Reason::PublicAclIgnored),
        false => Decision::Allow(reason),
    })
}
