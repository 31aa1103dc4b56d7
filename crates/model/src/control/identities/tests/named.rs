//! Policies that name a session of a role.

use super::*;
use crate::BucketPolicy;

/// Reads a policy that names the session `s` of the role `backup`.
fn policy() -> (String, Policy) {
    let text = r#"{"Statement": {"Effect": "Allow", "Action": "s3:GetObject",
        "Principal": {"AWS": "arn:aws:sts::000000000000:assumed-role/backup/s"},
        "Resource": "arn:aws:s3:::bucket/*"}}"#;
    (text.into(), Policy::parse(text, "bucket").unwrap())
}

async fn set_policy(model: &Model) {
    let (text, policy) = policy();
    let named = model.incarnations_of(&policy).await.unwrap().unwrap();
    let bucket = model.bucket("bucket").unwrap().unwrap();
    let policy = BucketPolicy::new(text, policy, named);
    model.set_policy(&bucket, Some(policy)).await.unwrap();
}

/// Begins the session `s` of a role.
async fn begin(model: &Model, parent: &AccessKey, role: &Role) -> Arc<AccessKey> {
    let limited = allow("s3:PutObject");
    let token = session(model, parent, role, Some(&limited)).await;
    model.key_of_token(&token).await.unwrap()
}

async fn delete(model: &Model, role: &str) {
    model.delete_inline::<Role>(role, "p").await.unwrap();
    model.delete_role(role).await.unwrap();
}

#[tokio::test]
async fn policy_means_sessions_of_the_role_that_had_the_name_when_it_was_set() {
    let model = model().await;
    model.create_bucket("bucket", None).await.unwrap();
    let parent = model.create_access_key("parent").await.unwrap();
    let nothing = allow("s3:PutObject");
    let missing = Ok(Err("backup".into()));
    assert_eq!(model.incarnations_of(&policy().1).await, missing);
    make_role(&model, "Backup", &nothing).await;
    assert_eq!(model.incarnations_of(&policy().1).await, missing);
    delete(&model, "Backup").await;

    let role = make_role(&model, "backup", &nothing).await;
    set_policy(&model).await;
    let meant = begin(&model, &parent, &role).await;
    assert!(may(&model, &meant, Action::GetObject).await);

    delete(&model, "backup").await;
    let again = make_role(&model, "backup", &nothing).await;
    let other = begin(&model, &parent, &again).await;
    assert!(!may(&model, &other, Action::GetObject).await);
    set_policy(&model).await;
    assert!(may(&model, &other, Action::GetObject).await);
}
