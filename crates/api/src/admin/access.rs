//! Access: explains decisions, publishes buckets.

use std::collections::BTreeMap;
use std::sync::Arc;

use archipel_access::{
    Action, Context, Inputs, Policy, Principal, Request, ResourceKind, decide, resource_arn,
    resource_of_arn,
};
use archipel_model::{Bucket, BucketPolicy, Error, ObjectHead, Subject};
use axum::extract::State;
use http::StatusCode;

use super::Admin;
use super::answer::{At, Json, NoContent, Read, Refusal};
use super::buckets::find;
use super::types::{Explain, Explanation};

/// The name of anonymous clients.
const ANONYMOUS: &str = "anonymous";

/// Decides about a request that nobody makes, and says why. Reads the object, if there is one.
#[utoipa::path(
    post, path = "/v1/access/explain", tag = "access", operation_id = "explain_access",
    request_body = Explain,
    responses((status = 200, description = "The decision", body = Explanation)),
)]
pub(super) async fn explain(
    State(admin): State<Arc<Admin>>,
    Read(ask): Read<Explain>,
) -> Result<Json<Explanation>, Refusal> {
    decide_about(&admin, &ask).await.map(Json)
}

async fn decide_about(admin: &Admin, ask: &Explain) -> Result<Explanation, Refusal> {
    let Asked {
        action,
        bucket: name,
        key,
    } = Asked::read(ask)?;
    let subject = find_subject(admin, &ask.key).await?;
    let caller = subject.as_ref().map(Subject::key);
    let bucket = match caller {
        Some(key) => admin.model.find_bucket_of_key(key, name).await?,
        None => admin.model.find_bucket(name).await?,
    };
    let principal = match (&bucket, &subject) {
        (Some(bucket), subject) => bucket.principal(subject.as_ref(), None),
        (None, Some(subject)) => subject.principal(None),
        (None, None) => Principal::Anonymous,
    };
    let asking = subject.as_ref().map(|subject| subject.principal(None));
    let asking = asking.unwrap_or(Principal::Anonymous);
    let mut context = Context::of(asking);
    let mut inputs = match &bucket {
        Some(bucket) => bucket.inputs(subject.as_ref()),
        None if action == Action::CreateBucket => Inputs {
            identity: subject.as_ref().map(Subject::identity),
            ..Inputs::default()
        },
        None => return Err(Refusal::of_bucket(Error::NoSuchBucket, name)),
    };
    inputs.grants.create_buckets = caller.is_some_and(|key| key.may_create_buckets);
    inputs.grants.list_buckets = caller.is_some();
    if let (Some(bucket), Some(key)) = (&bucket, key)
        && let Some(object) = find_object(admin, bucket, key).await?
    {
        inputs.object_acl = Some(object.acl);
        for (name, value) in &object.tags {
            context.add(&format!("s3:ExistingObjectTag/{name}"), value);
        }
    }
    for (name, value) in &ask.context {
        context.set(name, value);
    }
    let request = Request {
        principal,
        action,
        bucket: bucket.as_ref().map_or(name, |bucket| &bucket.name),
        key,
        context: &context,
    };
    let decision = decide(&request, &inputs);
    Ok(Explanation {
        allowed: decision.is_allowed(),
        reason: decision.reason().to_string(),
        action: action.name().to_owned(),
        resource: resource_arn(request.bucket, key),
        principal: asking.arn(),
        context: context
            .iter()
            .map(|(name, values)| (name.to_owned(), values.to_vec()))
            .collect(),
    })
}

/// The action that an explanation is about, and its resource.
struct Asked<'a> {
    action: Action,
    /// The bucket, by any of its names.
    bucket: &'a str,
    /// The object's key, for an action on an object.
    key: Option<&'a str>,
}

impl Asked<'_> {
    /// Reads the action and the resource. An action on an object needs one; other actions take none.
    fn read(ask: &Explain) -> Result<Asked<'_>, Refusal> {
        let unknown = || Refusal::invalid(format!("{:?} is no action of S3", ask.action));
        let action = Action::of_name(&ask.action).ok_or_else(unknown)?;
        let resource = resource_of_arn(&ask.resource).unwrap_or(&ask.resource);
        let (bucket, key) = match resource.split_once('/') {
            Some((bucket, key)) => (bucket, Some(key).filter(|key| !key.is_empty())),
            None => (resource, None),
        };
        let wanted = match action.resource() {
            ResourceKind::Object => "an object: BUCKET/KEY",
            ResourceKind::Bucket | ResourceKind::Account => "a bucket",
            ResourceKind::Identity => {
                return Err(Refusal::invalid("only actions of S3 can be explained"));
            }
        };
        if key.is_some() != (action.resource() == ResourceKind::Object) {
            let why = format!("{} is on {wanted}", action.name());
            return Err(Refusal::invalid(why));
        }
        Ok(Asked {
            action,
            bucket,
            key,
        })
    }
}

/// Returns the identity of an access key; `None` for anonymous clients.
async fn find_subject(admin: &Admin, key: &str) -> Result<Option<Subject>, Refusal> {
    if key == ANONYMOUS {
        return Ok(None);
    }
    let found = admin.model.find_access_key(key).await?;
    let key = found.ok_or_else(|| Refusal::of_key(Error::NoSuchAccessKey, key))?;
    match admin.model.subject(&key).await? {
        None => Err(Refusal::invalid("the access key is disabled or over")),
        subject => Ok(subject),
    }
}

/// Returns the metadata of an object, if it is there.
async fn find_object(
    admin: &Admin,
    bucket: &Bucket,
    key: &str,
) -> Result<Option<ObjectHead>, Refusal> {
    match admin.model.head_object(bucket, key).await {
        Ok(head) => Ok(Some(head)),
        Err(Error::NoSuchKey | Error::Deleted(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the policy of a published bucket.
fn public_read(bucket: &str) -> String {
    format!(
        r#"{{"Version":"2012-10-17","Statement":[{{"Sid":"PublicRead","Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::{bucket}/*"}}]}}"#
    )
}

/// Lets everybody get the objects of a bucket. Another policy is not overwritten.
#[utoipa::path(
    put, path = "/v1/buckets/{name}/public", tag = "buckets", operation_id = "publish_bucket",
    params(("name" = String, Path, description = "The bucket")),
    responses((status = 204, description = "The bucket is public")),
)]
pub(super) async fn publish(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<NoContent, Refusal> {
    let bucket = find(&admin, &name).await?;
    // A name that stands for the bucket is not the bucket's in policies.
    let name = bucket.name.as_str();
    let text = public_read(name);
    if bucket
        .policy
        .as_ref()
        .is_some_and(|policy| policy.text() != text)
    {
        let why = "the bucket has a policy of its own; add a statement to it";
        return Err(Refusal::new(StatusCode::CONFLICT, "PolicyExists", why));
    }
    let policy = Policy::parse(&text, name).map_err(|error| Refusal::invalid(error.to_string()))?;
    let policy = BucketPolicy::new(text, policy, BTreeMap::new());
    admin.model.publish(&bucket, policy).await?;
    Ok(NoContent)
}

/// Keeps anonymous clients out of a bucket, whatever its policy and lists say.
#[utoipa::path(
    delete, path = "/v1/buckets/{name}/public", tag = "buckets", operation_id = "unpublish_bucket",
    params(("name" = String, Path, description = "The bucket")),
    responses((status = 204, description = "The bucket is closed to clients without a key")),
)]
pub(super) async fn unpublish(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<NoContent, Refusal> {
    let bucket = find(&admin, &name).await?;
    let published = public_read(&bucket.name);
    admin.model.unpublish(&bucket, &published).await?;
    Ok(NoContent)
}
