//! Users, their keys, policies and sessions on one node, and revocation on several.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use archipel_access::{Action, Context, Policy, Request, decide};
use archipel_cluster::{Cluster, World};

use crate::bucket::AccessKey;
use crate::identity::*;
use crate::object::Tags;
use crate::{Error, Model, ModelOptions};

mod named;
mod races;
mod strangers;

async fn model() -> Model {
    let cluster = Cluster::in_memory(1, crate::HOOKS).await.unwrap();
    Model::open(cluster).await.unwrap()
}

async fn make_user(model: &Model, name: &str) -> Arc<User> {
    let user = NewUser {
        name: name.into(),
        path: "/".into(),
        ..NewUser::default()
    };
    model.create_user(user).await.unwrap()
}

async fn make_group(model: &Model, name: &str) -> Arc<Group> {
    let group = Group {
        name: name.into(),
        path: "/".into(),
        created_ms: 0,
        incarnation: model.random_id(),
        confirmed: 0,
        held: Held::default(),
    };
    model.create_entity(group).await.unwrap()
}

async fn make_role(model: &Model, name: &str, policy: &str) -> Arc<Role> {
    let trust =
        r#"{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "sts:AssumeRole"}}"#;
    let mut held = Held::default();
    held.inline
        .insert("p".into(), IdentityPolicy::parse(policy).unwrap());
    let role = Role {
        name: name.into(),
        path: "/".into(),
        created_ms: 0,
        incarnation: model.random_id(),
        description: String::new(),
        max_session_s: 3600,
        trust: TrustPolicy::new(
            trust.into(),
            Policy::parse_trust(trust).unwrap(),
            BTreeMap::new(),
        ),
        not_before_ms: None,
        held,
        tags: Tags::new(),
    };
    model.create_entity(role).await.unwrap()
}

fn allow(action: &str) -> String {
    format!(
        r#"{{"Statement": {{"Effect": "Allow", "Action": "{action}", "Resource": "arn:aws:s3:::bucket/*"}}}}"#
    )
}

async fn put_policy<E: Attached>(model: &Model, name: &str, policy: &str) {
    let policy = IdentityPolicy::parse(policy).unwrap();
    let changed = model.change_entity::<E>(name, move |entity| {
        entity.held_mut().inline.insert("p".into(), policy.clone());
        Ok(())
    });
    changed.await.unwrap();
}

/// Decides about an action on an object of the bucket `bucket`.
async fn may(model: &Model, key: &Arc<AccessKey>, action: Action) -> bool {
    let bucket = model.bucket("bucket").unwrap().unwrap();
    let Ok(Some(subject)) = model.subject(key).await else {
        return false;
    };
    let principal = bucket.principal(Some(&subject), None);
    let context = Context::of(principal);
    let request = Request {
        principal,
        action,
        bucket: "bucket",
        key: Some("key"),
        context: &context,
    };
    decide(&request, &bucket.inputs(Some(&subject))).is_allowed()
}

/// The key as requests find it.
fn key(model: &Model, id: &str) -> Arc<AccessKey> {
    model.access_key(id).unwrap().unwrap()
}

#[tokio::test]
async fn a_user_has_several_keys_and_the_policies_of_its_groups() {
    let model = model().await;
    model.create_bucket("bucket", None).await.unwrap();
    make_user(&model, "alice").await;
    let one = model.create_user_key("Alice").await.unwrap();
    let two = model.create_user_key("alice").await.unwrap();
    for key in [&one, &two] {
        assert!(!may(&model, key, Action::GetObject).await);
    }
    put_policy::<User>(&model, "alice", &allow("s3:GetObject")).await;
    make_group(&model, "writers").await;
    put_policy::<Group>(&model, "writers", &allow("s3:PutObject")).await;
    assert!(!may(&model, &one, Action::PutObject).await);
    model.join_group("alice", "writers").await.unwrap();
    for key in [&one, &two] {
        assert!(may(&model, key, Action::GetObject).await);
        assert!(may(&model, key, Action::PutObject).await);
        assert!(!may(&model, key, Action::DeleteObject).await);
    }
    let arn = "arn:aws:iam::aws:policy/AmazonS3FullAccess";
    model.attach::<User>("alice", arn).await.unwrap();
    assert!(may(&model, &one, Action::DeleteObject).await);
    model.detach::<User>("alice", arn).await.unwrap();
    assert!(!may(&model, &one, Action::DeleteObject).await);
    model.leave_group("alice", "writers").await.unwrap();
    assert!(!may(&model, &one, Action::PutObject).await);
}

#[tokio::test]
async fn name_that_is_used_again_is_another_user() {
    let model = model().await;
    let alice = make_user(&model, "alice").await;
    let again = model.create_entity(User::clone(&alice)).await;
    assert!(matches!(again, Err(Error::EntityExists(_))));
    let key = model.create_user_key("alice").await.unwrap();
    model
        .create_bucket_for("bucket", &key, Default::default(), None, Tags::new())
        .await
        .unwrap();
    assert!(
        may(&model, &key, Action::GetObject).await,
        "the user owns the bucket"
    );
    let bucket = model.bucket("bucket").unwrap().unwrap();
    assert_eq!(model.owners_of(&bucket).unwrap(), [alice.id()]);
    let other = model.create_user_key("alice").await.unwrap();
    assert!(may(&model, &other, Action::GetObject).await);

    let refused = model.delete_user("alice").await.unwrap_err();
    assert!(refused.to_string().contains("access keys"), "{refused}");
    for key in [&key, &other] {
        model.delete_access_key(&key.id).await.unwrap();
    }
    assert_eq!(model.drop_dead_grants().await, Ok(0), "the owner is there");
    model.delete_user("alice").await.unwrap();
    make_user(&model, "alice").await;
    let key = model.create_user_key("alice").await.unwrap();
    assert!(!may(&model, &key, Action::GetObject).await);
    assert!(model.owners_of(&bucket).unwrap().is_empty());
    assert_eq!(model.drop_dead_grants().await, Ok(1));
}

#[tokio::test]
async fn entities_in_use_stay() {
    let model = model().await;
    make_user(&model, "alice").await;
    make_group(&model, "group").await;
    model.join_group("alice", "group").await.unwrap();
    let why = |result: Result<Changed<()>, Error>| match result {
        Err(Error::EntityInUse(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(why(model.delete_user("alice").await).contains("remove users from group"));
    assert!(why(model.delete_group("group").await).contains("remove users from group"));
    model.leave_group("alice", "group").await.unwrap();
    put_policy::<Group>(&model, "group", &allow("s3:*")).await;
    assert!(why(model.delete_group("group").await).contains("delete policies"));
    let arn = "arn:aws:iam::aws:policy/AdministratorAccess";
    model.attach::<User>("alice", arn).await.unwrap();
    assert!(why(model.delete_user("alice").await).contains("detach all policies"));
    let missing = model
        .attach::<User>("alice", "arn:aws:iam::000000000000:policy/none")
        .await;
    assert!(matches!(missing, Err(Error::NoSuchEntity(_))));
}

#[tokio::test]
async fn a_disabled_or_expired_key_does_not_count() {
    let model = model().await;
    model.create_bucket("bucket", None).await.unwrap();
    make_user(&model, "alice").await;
    put_policy::<User>(&model, "alice", &allow("s3:*")).await;
    let id = model.create_user_key("alice").await.unwrap().id.clone();
    assert!(may(&model, &key(&model, &id), Action::GetObject).await);
    model.disable_key(&id).await.unwrap();
    assert!(!may(&model, &key(&model, &id), Action::GetObject).await);
    model.enable_key(&id).await.unwrap();
    assert!(may(&model, &key(&model, &id), Action::GetObject).await);
    let end = model.now_ms();
    let over = KeyChange {
        expires_ms: Some(Some(end)),
        ..KeyChange::default()
    };
    model.change_key(&id, over).await.unwrap();
    assert!(!may(&model, &key(&model, &id), Action::GetObject).await);
    let later = KeyChange {
        expires_ms: Some(Some(end + 3_600_000)),
        name: Some("laptop".to_owned()),
        ..KeyChange::default()
    };
    model.change_key(&id, later).await.unwrap();
    assert!(may(&model, &key(&model, &id), Action::GetObject).await);
    assert_eq!(key(&model, &id).name, "laptop");
}

/// A session of a role that a key asked for.
async fn session(model: &Model, key: &AccessKey, role: &Role, policy: Option<&str>) -> String {
    let new = NewSession {
        seconds: 3600,
        parent: Some(Parent {
            key: Reference {
                name: key.id.clone(),
                incarnation: key.incarnation,
            },
            user: key.user.clone(),
        }),
        role: Some(SessionRole {
            role: Reference::to(role),
            session: "s".into(),
        }),
        policy: policy.map(|text| IdentityPolicy::parse(text).unwrap()),
        ..NewSession::default()
    };
    model.begin_session(new).await.unwrap().1
}

#[tokio::test]
async fn a_session_ends_with_all_that_it_was_made_from() {
    let model = model().await;
    model.create_bucket("bucket", None).await.unwrap();
    let role = make_role(&model, "role", &allow("s3:*")).await;
    let parent = model.create_access_key("parent").await.unwrap();
    let limited = allow("s3:GetObject");
    let token = session(&model, &parent, &role, Some(&limited)).await;
    let key = model.key_of_token(&token).await.unwrap();
    assert!(key.id.starts_with("ASIA"));
    assert!(may(&model, &key, Action::GetObject).await);
    assert!(!may(&model, &key, Action::PutObject).await);
    let free = session(&model, &parent, &role, None).await;
    let free = model.key_of_token(&free).await.unwrap();
    assert!(may(&model, &free, Action::PutObject).await);

    model.disable_key(&parent.id).await.unwrap();
    assert!(!may(&model, &key, Action::GetObject).await);
    model.enable_key(&parent.id).await.unwrap();
    assert!(may(&model, &key, Action::GetObject).await);
    let now_ms = model.now_ms();
    let revoke = |role: &mut Role| {
        role.not_before_ms = Some(now_ms + 1);
        Ok(())
    };
    model.change_entity("role", revoke).await.unwrap();
    assert_eq!(model.subject(&key).await.err(), Some(Error::SessionExpired));
    let restore = |role: &mut Role| {
        role.not_before_ms = None;
        Ok(())
    };
    model.change_entity("role", restore).await.unwrap();
    assert!(may(&model, &key, Action::GetObject).await);
    model.delete_access_key(&parent.id).await.unwrap();
    assert!(model.subject(&key).await.unwrap().is_none());
}

#[tokio::test]
async fn a_token_that_was_changed_is_none() {
    let model = model().await;
    let role = make_role(&model, "role", &allow("s3:*")).await;
    let parent = model.create_access_key("parent").await.unwrap();
    let token = session(&model, &parent, &role, None).await;
    assert!(model.key_of_token(&token).await.is_ok());
    for at in 0..token.len() {
        let mut bytes = token.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).unwrap();
        // The last digit of Base64 may have bits that do not count, which the decoder refuses.
        let key = model.key_of_token(&changed).await;
        assert_eq!(key.err(), Some(Error::InvalidSession), "{at}");
    }
    for text in ["", "A", "AAAAAA", &"A".repeat(MAX_TOKEN_CHARS + 1)] {
        assert_eq!(
            model.key_of_token(text).await.err(),
            Some(Error::InvalidSession)
        );
    }
    let other = self::model().await;
    assert_eq!(
        other.key_of_token(&token).await.err(),
        Some(Error::InvalidSession)
    );
}

/// A token of one node counts at the others, and none of them asks another one about it.
#[tokio::test(start_paused = true)]
async fn disabling_names_the_nodes_that_did_not_confirm_and_holds_after_the_lease() {
    let latency = Duration::from_millis(5);
    let world = World::new(3, 3, latency, 1, crate::HOOKS).await.unwrap();
    let lease = Duration::from_secs(30);
    let mut models = Vec::new();
    for node in &world.nodes {
        let options = ModelOptions {
            control_lease: lease,
            ..ModelOptions::default()
        };
        let opened = Model::open_with(node.clone(), options);
        models.push(opened.await.unwrap());
    }
    let refreshing: Vec<_> = models
        .iter()
        .map(|model| {
            let model = model.clone();
            tokio::spawn(async move { model.refresh_forever().await })
        })
        .collect();
    let [one, two, three] = models.as_slice() else {
        panic!("three nodes");
    };
    one.create_bucket("bucket", None).await.unwrap();
    make_user(one, "alice").await;
    put_policy::<User>(one, "alice", &allow("s3:GetObject")).await;
    let role = make_role(two, "role", &allow("s3:*")).await;
    let parent = two.create_user_key("alice").await.unwrap();
    let token = session(one, &parent, &role, None).await;
    for model in &models {
        let temporary = model.key_of_token(&token).await.unwrap();
        assert!(may(model, &temporary, Action::PutObject).await);
        let key = model.find_access_key(&parent.id).await.unwrap().unwrap();
        assert!(may(model, &key, Action::GetObject).await);
    }

    // All nodes are there: the change counts everywhere when it is answered.
    let changed = one.disable_key(&parent.id).await.unwrap();
    assert!(changed.unconfirmed.is_empty());
    for model in &models {
        assert!(!may(model, &key(model, &parent.id), Action::GetObject).await);
        let temporary = model.key_of_token(&token).await.unwrap();
        assert!(!may(model, &temporary, Action::PutObject).await);
    }
    one.enable_key(&parent.id).await.unwrap();
    assert!(may(three, &key(three, &parent.id), Action::GetObject).await);

    // One node is cut off: the answer names it, and it answers nothing after its lease.
    world.isolate(2);
    let unconfirmed = one.delete_access_key(&parent.id).await.unwrap();
    assert_eq!(unconfirmed.len(), 1);
    assert!(
        may(three, &key(three, &parent.id), Action::GetObject).await,
        "it does not know yet"
    );
    assert!(two.access_key(&parent.id).unwrap().is_none());
    tokio::time::sleep(lease + Duration::from_secs(1)).await;
    assert!(matches!(
        three.access_key(&parent.id),
        Err(Error::Unconfirmed(_))
    ));
    assert!(matches!(
        three.subject(&parent).await,
        Err(Error::Unconfirmed(_))
    ));
    world.network.end_all_cuts();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while three.check_control().is_err() {
        assert!(
            tokio::time::Instant::now() < deadline,
            "the node is not back"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(three.access_key(&parent.id).unwrap().is_none());
    let temporary = three.key_of_token(&token).await.unwrap();
    assert!(!may(three, &temporary, Action::PutObject).await);
    refreshing.iter().for_each(|task| task.abort());
}
