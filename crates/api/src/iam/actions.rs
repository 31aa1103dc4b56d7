//! The table of actions: the resource of each, and the parameters that it knows.

use archipel_access::Action;

/// The kind of resource that an action acts on, as policies name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum On {
    /// All of them: `*`.
    All,
    /// The users below `PathPrefix`.
    Users,
    /// The groups below `PathPrefix`.
    Groups,
    /// The roles below `PathPrefix`.
    Roles,
    /// The user of `UserName`.
    User,
    /// The user of `UserName`, or the caller.
    UserOrCaller,
    /// The group of `GroupName`.
    Group,
    /// The role of `RoleName`.
    Role,
    /// The managed policy of `PolicyArn`.
    Policy,
    /// The managed policy of `PolicyName`, which is made.
    NewPolicy,
    /// The identity provider of `OpenIDConnectProviderArn`.
    Provider,
    /// The identity provider of `Url`, which is made.
    NewProvider,
}

/// Returns the action that an action needs as well if it gives tags to what it creates.
///
/// Source: AWS, "Controlling access for IAM users and roles using tags".
pub fn tags_with(action: Action) -> Option<Action> {
    match action {
        Action::CreateOpenIDConnectProvider => Some(Action::TagOpenIDConnectProvider),
        Action::CreatePolicy => Some(Action::TagPolicy),
        Action::CreateRole => Some(Action::TagRole),
        Action::CreateUser => Some(Action::TagUser),
        _ => None,
    }
}

/// An action.
pub struct Known {
    pub action: Action,
    pub on: On,
    /// The parameters that it knows, or whose members it knows.
    pub parameters: &'static [&'static str],
}

macro_rules! table {
    ($($action:ident $on:ident $parameters:expr,)*) => {
        /// All actions of IAM that are implemented.
        pub const ACTIONS: &[Known] = &[$(Known {
            action: Action::$action,
            on: On::$on,
            parameters: &$parameters,
        },)*];
    };
}

table! {
    AddClientIDToOpenIDConnectProvider Provider ["OpenIDConnectProviderArn", "ClientID"],
    AddUserToGroup Group ["GroupName", "UserName"],
    AttachGroupPolicy Group ["GroupName", "PolicyArn"],
    AttachRolePolicy Role ["RoleName", "PolicyArn"],
    AttachUserPolicy User ["UserName", "PolicyArn"],
    CreateAccessKey UserOrCaller ["UserName"],
    CreateGroup Group ["GroupName", "Path"],
    CreateOpenIDConnectProvider NewProvider ["Url", "ClientIDList", "ThumbprintList",
        "Tags"],
    CreatePolicy NewPolicy ["PolicyName", "Path", "PolicyDocument", "Description", "Tags"],
    CreatePolicyVersion Policy ["PolicyArn", "PolicyDocument", "SetAsDefault"],
    CreateRole Role ["RoleName", "Path", "AssumeRolePolicyDocument", "Description",
        "MaxSessionDuration", "Tags"],
    CreateUser User ["UserName", "Path", "Tags"],
    DeleteAccessKey UserOrCaller ["UserName", "AccessKeyId"],
    DeleteGroup Group ["GroupName"],
    DeleteGroupPolicy Group ["GroupName", "PolicyName"],
    DeleteLoginProfile UserOrCaller ["UserName"],
    DeleteOpenIDConnectProvider Provider ["OpenIDConnectProviderArn"],
    DeletePolicy Policy ["PolicyArn"],
    DeletePolicyVersion Policy ["PolicyArn", "VersionId"],
    DeleteRole Role ["RoleName"],
    DeleteRolePolicy Role ["RoleName", "PolicyName"],
    DeleteUser User ["UserName"],
    DeleteUserPolicy User ["UserName", "PolicyName"],
    DetachGroupPolicy Group ["GroupName", "PolicyArn"],
    DetachRolePolicy Role ["RoleName", "PolicyArn"],
    DetachUserPolicy User ["UserName", "PolicyArn"],
    GetAccountPasswordPolicy All [],
    GetAccountSummary All [],
    GetGroup Group ["GroupName", "Marker", "MaxItems"],
    GetGroupPolicy Group ["GroupName", "PolicyName"],
    GetLoginProfile UserOrCaller ["UserName"],
    GetOpenIDConnectProvider Provider ["OpenIDConnectProviderArn"],
    GetPolicy Policy ["PolicyArn"],
    GetPolicyVersion Policy ["PolicyArn", "VersionId"],
    GetRole Role ["RoleName"],
    GetRolePolicy Role ["RoleName", "PolicyName"],
    GetUser UserOrCaller ["UserName"],
    GetUserPolicy User ["UserName", "PolicyName"],
    ListAccessKeys UserOrCaller ["UserName", "Marker", "MaxItems"],
    ListAccountAliases All ["Marker", "MaxItems"],
    ListAttachedGroupPolicies Group ["GroupName", "PathPrefix", "Marker", "MaxItems"],
    ListAttachedRolePolicies Role ["RoleName", "PathPrefix", "Marker", "MaxItems"],
    ListAttachedUserPolicies User ["UserName", "PathPrefix", "Marker", "MaxItems"],
    ListEntitiesForPolicy Policy ["PolicyArn", "EntityFilter", "PathPrefix", "Marker", "MaxItems"],
    ListGroupPolicies Group ["GroupName", "Marker", "MaxItems"],
    ListGroups Groups ["PathPrefix", "Marker", "MaxItems"],
    ListGroupsForUser User ["UserName", "Marker", "MaxItems"],
    ListInstanceProfiles All ["PathPrefix", "Marker", "MaxItems"],
    ListInstanceProfilesForRole Role ["RoleName", "Marker", "MaxItems"],
    ListMFADevices UserOrCaller ["UserName", "Marker", "MaxItems"],
    ListOpenIDConnectProviderTags Provider ["OpenIDConnectProviderArn", "Marker", "MaxItems"],
    ListOpenIDConnectProviders All [],
    ListPolicies All ["Scope", "OnlyAttached", "PathPrefix", "Marker", "MaxItems"],
    ListPolicyTags Policy ["PolicyArn", "Marker", "MaxItems"],
    ListPolicyVersions Policy ["PolicyArn", "Marker", "MaxItems"],
    ListRolePolicies Role ["RoleName", "Marker", "MaxItems"],
    ListRoleTags Role ["RoleName", "Marker", "MaxItems"],
    ListRoles Roles ["PathPrefix", "Marker", "MaxItems"],
    ListSAMLProviders All [],
    ListSSHPublicKeys UserOrCaller ["UserName", "Marker", "MaxItems"],
    ListServerCertificates All ["PathPrefix", "Marker", "MaxItems"],
    ListServiceSpecificCredentials UserOrCaller ["UserName", "ServiceName", "Marker", "MaxItems"],
    ListSigningCertificates UserOrCaller ["UserName", "Marker", "MaxItems"],
    ListUserPolicies User ["UserName", "Marker", "MaxItems"],
    ListUserTags User ["UserName", "Marker", "MaxItems"],
    ListUsers Users ["PathPrefix", "Marker", "MaxItems"],
    ListVirtualMFADevices All ["AssignmentStatus", "Marker", "MaxItems"],
    PutGroupPolicy Group ["GroupName", "PolicyName", "PolicyDocument"],
    PutRolePolicy Role ["RoleName", "PolicyName", "PolicyDocument"],
    PutUserPolicy User ["UserName", "PolicyName", "PolicyDocument"],
    RemoveClientIDFromOpenIDConnectProvider Provider ["OpenIDConnectProviderArn", "ClientID"],
    RemoveUserFromGroup Group ["GroupName", "UserName"],
    SetDefaultPolicyVersion Policy ["PolicyArn", "VersionId"],
    TagOpenIDConnectProvider Provider ["OpenIDConnectProviderArn", "Tags"],
    TagPolicy Policy ["PolicyArn", "Tags"],
    TagRole Role ["RoleName", "Tags"],
    TagUser User ["UserName", "Tags"],
    UntagOpenIDConnectProvider Provider ["OpenIDConnectProviderArn", "TagKeys"],
    UntagPolicy Policy ["PolicyArn", "TagKeys"],
    UntagRole Role ["RoleName", "TagKeys"],
    UntagUser User ["UserName", "TagKeys"],
    UpdateAccessKey UserOrCaller ["UserName", "AccessKeyId", "Status"],
    UpdateAssumeRolePolicy Role ["RoleName", "PolicyDocument"],
    UpdateGroup Group ["GroupName", "NewGroupName", "NewPath"],
    UpdateOpenIDConnectProviderThumbprint Provider ["OpenIDConnectProviderArn", "ThumbprintList"],
    UpdateRole Role ["RoleName", "Description", "MaxSessionDuration"],
    UpdateRoleDescription Role ["RoleName", "Description"],
    UpdateUser User ["UserName", "NewUserName", "NewPath"],
}

#[cfg(test)]
mod tests {
    use archipel_access::Action;

    use super::ACTIONS;

    #[test]
    fn every_action_of_iam_that_policies_can_name_is_implemented() {
        let named = Action::all().filter(|action| action.service() == "iam");
        for action in named {
            let known = ACTIONS.iter().filter(|known| known.action == action);
            assert_eq!(known.count(), 1, "{}", action.name());
        }
    }
}
