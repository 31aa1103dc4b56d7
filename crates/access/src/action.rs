//! The actions of S3, IAM and STS: one table with the resource of each and the grant that includes
//! it.
//!
//! Source: AWS, "Actions, resources, and condition keys for Amazon S3", "... for AWS Identity and
//! Access Management" and "... for AWS Security Token Service". Actions on access points, jobs and
//! other resources that do not exist here are left out. `ListenBucketNotification` and
//! `ListenNotification` are MinIO's.

use crate::pattern;

/// The kind of resource that an action applies to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResourceKind {
    /// No bucket: the list of buckets.
    Account,
    /// A bucket: `arn:aws:s3:::bucket`.
    Bucket,
    /// An object: `arn:aws:s3:::bucket/key`.
    Object,
    /// A user, group, role, policy or identity provider: `arn:aws:iam::000000000000:user/name`.
    Identity,
}

/// The grant of an access key on a bucket that includes an action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Every grant.
    Any,
    /// The grant to read.
    Read,
    /// The grant to write.
    Write,
    /// The grant to own.
    Owner,
    /// No grant on a bucket.
    Never,
}

/// Defines the actions: service, name, resource, grant.
macro_rules! actions {
    ($([$service:literal] $($name:ident $resource:ident $level:ident,)*)*) => {
        /// An action, as policies name it after `s3:`, `iam:` or `sts:`.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[repr(u8)]
        pub enum Action {
            $($(#[doc = concat!("`", $service, stringify!($name), "`.")] $name,)*)*
        }

        /// All actions, in the order of their numbers.
        const ALL: &[(Action, &str, ResourceKind, Level)] = &[
            $($((
                Action::$name,
                concat!($service, stringify!($name)),
                ResourceKind::$resource,
                Level::$level,
            ),)*)*
        ];
    };
}

actions! {
    ["s3:"]
    AbortMultipartUpload Object Write,
    BypassGovernanceRetention Object Owner,
    CreateBucket Bucket Never,
    CreateBucketMetadataTableConfiguration Bucket Owner,
    DeleteBucket Bucket Owner,
    DeleteBucketMetadataTableConfiguration Bucket Owner,
    DeleteBucketPolicy Bucket Owner,
    DeleteBucketWebsite Bucket Owner,
    DeleteObject Object Write,
    DeleteObjectTagging Object Write,
    DeleteObjectVersion Object Write,
    DeleteObjectVersionTagging Object Write,
    GetAccelerateConfiguration Bucket Owner,
    GetAccountPublicAccessBlock Account Never,
    GetAnalyticsConfiguration Bucket Owner,
    GetBucketAbac Bucket Owner,
    GetBucketAcl Bucket Owner,
    GetBucketCORS Bucket Owner,
    GetBucketLocation Bucket Any,
    GetBucketLogging Bucket Owner,
    GetBucketMetadataTableConfiguration Bucket Owner,
    GetBucketNotification Bucket Owner,
    GetBucketObjectLockConfiguration Bucket Any,
    GetBucketOwnershipControls Bucket Owner,
    GetBucketPolicy Bucket Owner,
    GetBucketPolicyStatus Bucket Owner,
    GetBucketPublicAccessBlock Bucket Owner,
    GetBucketRequestPayment Bucket Owner,
    GetBucketTagging Bucket Owner,
    GetBucketVersioning Bucket Any,
    GetBucketWebsite Bucket Owner,
    GetEncryptionConfiguration Bucket Owner,
    GetIntelligentTieringConfiguration Bucket Owner,
    GetInventoryConfiguration Bucket Owner,
    GetLifecycleConfiguration Bucket Owner,
    GetMetricsConfiguration Bucket Owner,
    GetObject Object Read,
    GetObjectAcl Object Read,
    GetObjectAttributes Object Read,
    GetObjectLegalHold Object Read,
    GetObjectRetention Object Read,
    GetObjectTagging Object Read,
    GetObjectTorrent Object Read,
    GetObjectVersion Object Read,
    GetObjectVersionAcl Object Read,
    GetObjectVersionAttributes Object Read,
    GetObjectVersionForReplication Object Owner,
    GetObjectVersionTagging Object Read,
    GetObjectVersionTorrent Object Read,
    GetReplicationConfiguration Bucket Owner,
    InitiateReplication Object Owner,
    ListAllMyBuckets Account Never,
    ListBucket Bucket Read,
    ListBucketMultipartUploads Bucket Read,
    ListBucketVersions Bucket Read,
    ListMultipartUploadParts Object Write,
    ListTagsForResource Bucket Owner,
    ListenBucketNotification Bucket Read,
    ListenNotification Account Never,
    ObjectOwnerOverrideToBucketOwner Object Owner,
    PutAccelerateConfiguration Bucket Owner,
    PutAnalyticsConfiguration Bucket Owner,
    PutBucketAbac Bucket Owner,
    PutBucketAcl Bucket Owner,
    PutBucketCORS Bucket Owner,
    PutBucketLogging Bucket Owner,
    PutBucketNotification Bucket Owner,
    PutBucketObjectLockConfiguration Bucket Owner,
    PutBucketOwnershipControls Bucket Owner,
    PutBucketPolicy Bucket Owner,
    PutBucketPublicAccessBlock Bucket Owner,
    PutBucketRequestPayment Bucket Owner,
    PutBucketTagging Bucket Owner,
    PutBucketVersioning Bucket Owner,
    PutBucketWebsite Bucket Owner,
    PutEncryptionConfiguration Bucket Owner,
    PutIntelligentTieringConfiguration Bucket Owner,
    PutInventoryConfiguration Bucket Owner,
    PutLifecycleConfiguration Bucket Owner,
    PutMetricsConfiguration Bucket Owner,
    PutObject Object Write,
    PutObjectAcl Object Owner,
    PutObjectLegalHold Object Write,
    PutObjectRetention Object Write,
    PutObjectTagging Object Write,
    PutObjectVersionAcl Object Owner,
    PutObjectVersionTagging Object Write,
    PutReplicationConfiguration Bucket Owner,
    ReplicateDelete Object Owner,
    ReplicateObject Object Owner,
    ReplicateTags Object Owner,
    RestoreObject Object Write,
    TagResource Bucket Owner,
    UntagResource Bucket Owner,
    UpdateObjectEncryption Object Owner,
    ["iam:"]
    AddClientIDToOpenIDConnectProvider Identity Never,
    AddUserToGroup Identity Never,
    AttachGroupPolicy Identity Never,
    AttachRolePolicy Identity Never,
    AttachUserPolicy Identity Never,
    CreateAccessKey Identity Never,
    CreateGroup Identity Never,
    CreateOpenIDConnectProvider Identity Never,
    CreatePolicy Identity Never,
    CreatePolicyVersion Identity Never,
    CreateRole Identity Never,
    CreateUser Identity Never,
    DeleteAccessKey Identity Never,
    DeleteGroup Identity Never,
    DeleteGroupPolicy Identity Never,
    DeleteLoginProfile Identity Never,
    DeleteOpenIDConnectProvider Identity Never,
    DeletePolicy Identity Never,
    DeletePolicyVersion Identity Never,
    DeleteRole Identity Never,
    DeleteRolePolicy Identity Never,
    DeleteUser Identity Never,
    DeleteUserPolicy Identity Never,
    DetachGroupPolicy Identity Never,
    DetachRolePolicy Identity Never,
    DetachUserPolicy Identity Never,
    GetAccountPasswordPolicy Identity Never,
    GetAccountSummary Identity Never,
    GetGroup Identity Never,
    GetGroupPolicy Identity Never,
    GetLoginProfile Identity Never,
    GetOpenIDConnectProvider Identity Never,
    GetPolicy Identity Never,
    GetPolicyVersion Identity Never,
    GetRole Identity Never,
    GetRolePolicy Identity Never,
    GetUser Identity Never,
    GetUserPolicy Identity Never,
    ListAccessKeys Identity Never,
    ListAccountAliases Identity Never,
    ListAttachedGroupPolicies Identity Never,
    ListAttachedRolePolicies Identity Never,
    ListAttachedUserPolicies Identity Never,
    ListEntitiesForPolicy Identity Never,
    ListGroupPolicies Identity Never,
    ListGroups Identity Never,
    ListGroupsForUser Identity Never,
    ListInstanceProfiles Identity Never,
    ListInstanceProfilesForRole Identity Never,
    ListMFADevices Identity Never,
    ListOpenIDConnectProviderTags Identity Never,
    ListOpenIDConnectProviders Identity Never,
    ListPolicies Identity Never,
    ListPolicyTags Identity Never,
    ListPolicyVersions Identity Never,
    ListRolePolicies Identity Never,
    ListRoleTags Identity Never,
    ListRoles Identity Never,
    ListSAMLProviders Identity Never,
    ListSSHPublicKeys Identity Never,
    ListServerCertificates Identity Never,
    ListServiceSpecificCredentials Identity Never,
    ListSigningCertificates Identity Never,
    ListUserPolicies Identity Never,
    ListUserTags Identity Never,
    ListUsers Identity Never,
    ListVirtualMFADevices Identity Never,
    PutGroupPolicy Identity Never,
    PutRolePolicy Identity Never,
    PutUserPolicy Identity Never,
    RemoveClientIDFromOpenIDConnectProvider Identity Never,
    RemoveUserFromGroup Identity Never,
    SetDefaultPolicyVersion Identity Never,
    TagOpenIDConnectProvider Identity Never,
    TagPolicy Identity Never,
    TagRole Identity Never,
    TagUser Identity Never,
    UntagOpenIDConnectProvider Identity Never,
    UntagPolicy Identity Never,
    UntagRole Identity Never,
    UntagUser Identity Never,
    UpdateAccessKey Identity Never,
    UpdateAssumeRolePolicy Identity Never,
    UpdateGroup Identity Never,
    UpdateOpenIDConnectProviderThumbprint Identity Never,
    UpdateRole Identity Never,
    UpdateRoleDescription Identity Never,
    UpdateUser Identity Never,
    ["sts:"]
    AssumeRole Identity Never,
    AssumeRoleWithWebIdentity Identity Never,
    GetCallerIdentity Identity Never,
    GetSessionToken Identity Never,
    TagSession Identity Never,
}

impl Action {
    /// Returns all actions.
    pub fn all() -> impl Iterator<Item = Action> {
        ALL.iter().map(|(action, ..)| *action)
    }

    /// Returns the name, as policies write it: `s3:GetObject`.
    pub fn name(self) -> &'static str {
        ALL[self as usize].1
    }

    /// Returns the service: `s3`, `iam` or `sts`.
    pub fn service(self) -> &'static str {
        self.name().split(':').next().unwrap_or_default()
    }

    fn word(self) -> usize {
        usize::from(self as u8 >> 7)
    }

    fn bit(self) -> u128 {
        1 << (self as u8 & 127)
    }

    /// Returns the kind of resource that the action applies to.
    pub fn resource(self) -> ResourceKind {
        ALL[self as usize].2
    }

    /// Returns the grant on a bucket that includes the action.
    pub fn level(self) -> Level {
        ALL[self as usize].3
    }

    /// Returns the action of that name, in any case.
    pub fn of_name(name: &str) -> Option<Action> {
        Action::all().find(|action| action.name().eq_ignore_ascii_case(name))
    }

    /// Returns the action that is needed when the request names a version of the object.
    pub fn of_version(self) -> Action {
        match self {
            Action::DeleteObject => Action::DeleteObjectVersion,
            Action::DeleteObjectTagging => Action::DeleteObjectVersionTagging,
            Action::GetObject => Action::GetObjectVersion,
            Action::GetObjectAcl => Action::GetObjectVersionAcl,
            Action::GetObjectAttributes => Action::GetObjectVersionAttributes,
            Action::GetObjectTagging => Action::GetObjectVersionTagging,
            Action::PutObjectAcl => Action::PutObjectVersionAcl,
            Action::PutObjectTagging => Action::PutObjectVersionTagging,
            other => other,
        }
    }
}

/// A set of actions: two words of bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ActionSet([u128; 2]);

// Every action has a bit.
const _: () = assert!(ALL.len() <= 256);

impl ActionSet {
    /// Returns the actions that a pattern such as `s3:Get*` names, in any case.
    pub fn of_pattern(text: &str) -> ActionSet {
        let tokens = pattern::tokens(&text.to_ascii_lowercase());
        let mut set = ActionSet::default();
        for action in Action::all() {
            if pattern::matches(&tokens, &action.name().to_ascii_lowercase()) {
                set.0[action.word()] |= action.bit();
            }
        }
        set
    }

    /// Returns all actions that are not in the set.
    pub fn inverse(self) -> ActionSet {
        let mut set = ActionSet::default();
        for action in Action::all().filter(|action| !self.has(*action)) {
            set.0[action.word()] |= action.bit();
        }
        set
    }

    /// Returns the actions that are in either set.
    pub fn union(self, other: ActionSet) -> ActionSet {
        let ([a, b], [c, d]) = (self.0, other.0);
        ActionSet([a | c, b | d])
    }

    /// Returns true if the set has the action.
    pub fn has(self, action: Action) -> bool {
        self.0[action.word()] & action.bit() != 0
    }

    /// Returns the actions of the set.
    pub fn iter(self) -> impl Iterator<Item = Action> {
        Action::all().filter(move |action| self.has(*action))
    }
}
