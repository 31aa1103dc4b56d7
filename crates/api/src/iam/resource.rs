//! The resources of actions, as policies name and describe them.

use archipel_access::Context;
use archipel_access::principal::{arn, provider_arn};
use archipel_model::identity::{
    Attached, Entity, Group, Kind, ROOT_PATH, Role, User, provider_of_url,
};
use archipel_model::{Error, Tags};

use super::actions::On;
use super::error::IamResult;
use super::service::Ask;

/// The resource of an action.
pub struct Resource {
    /// Its ARN.
    pub arn: String,
    /// Its tags.
    pub tags: Tags,
}

impl From<String> for Resource {
    fn from(arn: String) -> Resource {
        Resource {
            arn,
            tags: Tags::new(),
        }
    }
}

impl Resource {
    /// Sets the condition keys for the tags.
    pub fn describe(&self, context: &mut Context) {
        for (name, value) in &self.tags {
            context.set(&format!("aws:ResourceTag/{name}"), value);
            context.set(&format!("iam:ResourceTag/{name}"), value);
        }
    }
}

impl Ask<'_> {
    /// Returns the resource. One that does not exist yet has the path of the request.
    pub async fn resource(&self, on: On) -> IamResult<Resource> {
        let path = self.form.get("Path").unwrap_or(ROOT_PATH);
        Ok(Resource::from(match on {
            On::All => "*".to_owned(),
            On::Users => self.below(User::WHAT),
            On::Groups => self.below(Group::WHAT),
            On::Roles => self.below(Role::WHAT),
            On::User => return self.entity("UserName", |user: &User| &user.tags).await,
            On::UserOrCaller => match (self.form.get("UserName"), self.caller.subject()) {
                (Some(_), _) => return self.entity("UserName", |user: &User| &user.tags).await,
                (None, Some(subject)) => {
                    let arn = subject.principal(None).identity_arn().unwrap_or_default();
                    let tags = match subject.kind() {
                        Kind::User(user) => user.tags.clone(),
                        _ => Tags::new(),
                    };
                    return Ok(Resource { arn, tags });
                }
                (None, None) => "*".to_owned(),
            },
            On::Group => return self.entity("GroupName", |_: &Group| &[]).await,
            On::Role => return self.entity("RoleName", |role: &Role| &role.tags).await,
            On::Policy => {
                let arn = self.form.required("PolicyArn")?;
                let tags = match self.model.find_policy(arn).await {
                    Ok(policy) => policy.tags.clone(),
                    // The action itself says so.
                    Err(Error::NoSuchEntity(_)) => Tags::new(),
                    Err(error) => return Err(error.into()),
                };
                let arn = arn.to_owned();
                return Ok(Resource { arn, tags });
            }
            On::NewPolicy => arn("policy", path, self.form.required("PolicyName")?),
            On::Provider => provider_arn(&self.provider()?.to_ascii_lowercase()),
            On::NewProvider => {
                let provider = provider_of_url(self.form.required("Url")?)?;
                provider_arn(&provider)
            }
        }))
    }

    /// Returns the ARN of all users, groups or roles that a list is about.
    fn below(&self, what: &str) -> String {
        let prefix = self.form.get("PathPrefix").unwrap_or(ROOT_PATH);
        arn(what, prefix, "")
    }

    /// Returns the user, group or role that a parameter names.
    async fn entity<E: Attached>(
        &self,
        parameter: &str,
        tags: fn(&E) -> &[(String, String)],
    ) -> IamResult<Resource> {
        let name = self.form.required(parameter)?;
        let path = self.form.get("Path").unwrap_or(ROOT_PATH);
        match self.model.find_entity::<E>(name).await {
            Ok(entity) => Ok(Resource {
                arn: entity.arn(),
                tags: tags(&entity).to_vec(),
            }),
            Err(Error::NoSuchEntity(_)) => Ok(arn(E::WHAT, path, name).into()),
            Err(error) => Err(error.into()),
        }
    }
}
