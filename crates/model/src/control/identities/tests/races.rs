//! Deletions that race with changes that refer to what they delete, and callers that go away.

use archipel_cluster::World;

use super::*;
use crate::control::tests::world;

/// The time at which a reference begins, in milliseconds. A deletion begins before or after it.
const MIDDLE_MS: u64 = 60;

async fn two(world: &World) -> (Model, Model) {
    let one = Model::open(world.nodes[0].clone()).await.unwrap();
    (one, Model::open(world.nodes[1].clone()).await.unwrap())
}

async fn make_policy(model: &Model, name: &str) -> Arc<ManagedPolicy> {
    let new = NewPolicy {
        name: name.into(),
        path: "/".into(),
        description: String::new(),
        document: allow("s3:GetObject"),
        tags: Tags::new(),
    };
    model.create_policy(new).await.unwrap()
}

async fn after<T>(delay_ms: u64, work: impl Future<Output = T>) -> T {
    tokio::time::sleep(Duration::from_millis(delay_ms)).await;
    work.await
}

/// Checks that exactly one of two operations succeeded, and that the other one said why it did not.
fn one_of<A, B>(deleted: &Result<A, Error>, referred: &Result<B, Error>, delay_ms: u64) -> bool {
    match (deleted, referred) {
        (Ok(_), Err(Error::NoSuchEntity(_))) => true,
        (Err(Error::EntityInUse(_)), Ok(_)) => false,
        (deleted, referred) => panic!(
            "after {delay_ms} ms: deleted {:?}, referred {:?}",
            deleted.as_ref().err(),
            referred.as_ref().err()
        ),
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_is_deleted_or_attached_and_never_both() {
    let world = world().await;
    let (here, there) = two(&world).await;
    make_user(&here, "alice").await;
    let (mut deletions, mut attachments) = (0, 0);
    for delay_ms in (0..2 * MIDDLE_MS).step_by(3) {
        let arn = make_policy(&here, "limits").await.arn();
        let (deleted, attached) = tokio::join!(
            after(delay_ms, here.delete_policy("limits")),
            after(MIDDLE_MS, there.attach::<User>("alice", &arn)),
        );
        let is_deleted = one_of(&deleted, &attached, delay_ms);
        here.refresh_all().await.unwrap();
        let alice = here.entity::<User>("alice").unwrap().unwrap();
        assert_eq!(alice.held.attached.is_empty(), is_deleted, "{delay_ms}");
        let policy = here.entity::<ManagedPolicy>("limits").unwrap();
        assert_eq!(policy.is_none(), is_deleted, "{delay_ms}");
        if is_deleted {
            deletions += 1;
            continue;
        }
        attachments += 1;
        here.detach::<User>("alice", &arn).await.unwrap();
        here.delete_policy("limits").await.unwrap();
    }
    assert!(deletions > 3 && attachments > 3);
}

#[tokio::test(start_paused = true)]
async fn a_user_is_not_created_with_a_policy_that_is_gone() {
    let world = world().await;
    let (here, there) = two(&world).await;
    for delay_ms in (0..2 * MIDDLE_MS).step_by(3) {
        let arn = make_policy(&here, "limits").await.arn();
        let new = NewUser {
            name: "alice".into(),
            path: "/".into(),
            attach: vec![arn.clone()],
            ..NewUser::default()
        };
        let (deleted, created) = tokio::join!(
            after(delay_ms, here.delete_policy("limits")),
            after(MIDDLE_MS, there.create_user(new)),
        );
        let is_deleted = one_of(&deleted, &created, delay_ms);
        here.refresh_all().await.unwrap();
        let alice = here.entity::<User>("alice").unwrap();
        assert_eq!(alice.is_none(), is_deleted, "{delay_ms}");
        if !is_deleted {
            here.detach::<User>("alice", &arn).await.unwrap();
            here.delete_user("alice").await.unwrap();
            here.delete_policy("limits").await.unwrap();
        }
    }
}

/// A policy that is attached to a group may deny something, so a group with a policy is not
/// deleted.
#[tokio::test(start_paused = true)]
async fn a_group_that_gets_a_policy_or_a_user_is_not_deleted() {
    let world = world().await;
    let (here, there) = two(&world).await;
    make_user(&here, "alice").await;
    let arn = "arn:aws:iam::aws:policy/AmazonS3FullAccess";
    for delay_ms in (0..2 * MIDDLE_MS).step_by(3) {
        there.refresh_all().await.unwrap();
        make_group(&here, "group").await;
        let (deleted, attached) = tokio::join!(
            after(delay_ms, here.delete_group("group")),
            after(MIDDLE_MS, there.attach::<Group>("group", arn)),
        );
        if !one_of(&deleted, &attached, delay_ms) {
            here.detach::<Group>("group", arn).await.unwrap();
            here.delete_group("group").await.unwrap();
        }
        make_group(&here, "group").await;
        let (deleted, joined) = tokio::join!(
            after(delay_ms, here.delete_group("group")),
            after(MIDDLE_MS, there.join_group("alice", "group")),
        );
        let is_deleted = one_of(&deleted, &joined, delay_ms);
        here.refresh_all().await.unwrap();
        let alice = here.entity::<User>("alice").unwrap().unwrap();
        assert_eq!(alice.groups.is_empty(), is_deleted, "{delay_ms}");
        if !is_deleted {
            here.leave_group("alice", "group").await.unwrap();
            here.delete_group("group").await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_user_that_gets_a_key_is_not_deleted() {
    let world = world().await;
    let (here, there) = two(&world).await;
    for delay_ms in (0..2 * MIDDLE_MS).step_by(3) {
        make_user(&here, "alice").await;
        let (deleted, key) = tokio::join!(
            after(delay_ms, here.delete_user("alice")),
            after(MIDDLE_MS, there.create_user_key("alice")),
        );
        let is_deleted = one_of(&deleted, &key, delay_ms);
        here.refresh_all().await.unwrap();
        assert_eq!(here.access_keys().unwrap().is_empty(), is_deleted);
        if let Ok(key) = key {
            here.delete_access_key(&key.id).await.unwrap();
            here.delete_user("alice").await.unwrap();
        }
    }
}

/// Its denials must not get lost with it.
#[tokio::test]
async fn a_policy_that_is_gone_denies_everything() {
    let model = model().await;
    model.create_bucket("bucket", None).await.unwrap();
    make_user(&model, "alice").await;
    put_policy::<User>(&model, "alice", &allow("s3:*")).await;
    let key = model.create_user_key("alice").await.unwrap();
    assert!(may(&model, &key, Action::GetObject).await);
    let policy = make_policy(&model, "limits").await;
    let gone = PolicyRef {
        incarnation: model.random_id(),
        ..PolicyRef::to(&policy)
    };
    for name in ["limits", "none"] {
        let gone = PolicyRef {
            arn: gone.arn.replace("limits", name),
            ..gone.clone()
        };
        let attach = |user: &mut User| {
            user.held.attached.insert(gone.clone());
            Ok(())
        };
        model.change_entity("alice", attach).await.unwrap();
        assert!(!may(&model, &key, Action::GetObject).await, "{name}");
        model.detach::<User>("alice", &gone.arn).await.unwrap();
        assert!(may(&model, &key, Action::GetObject).await, "{name}");
    }
}

/// Runs work for a while, and then drops it.
async fn begin<T>(delay_ms: u64, work: impl Future<Output = T>) {
    let _ = tokio::time::timeout(Duration::from_millis(delay_ms), work).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_goes_on_when_its_caller_goes_away() {
    let world = world().await;
    let (here, there) = two(&world).await;
    for delay_ms in (1..60).step_by(2) {
        make_user(&here, "alice").await;
        make_policy(&here, "limits").await;
        there.refresh_all().await.unwrap();
        begin(delay_ms, here.delete_user("alice")).await;
        begin(delay_ms, here.delete_policy("limits")).await;
        for model in [&here, &there] {
            assert!(model.entity::<User>("alice").unwrap().is_none());
            assert!(model.entity::<ManagedPolicy>("limits").unwrap().is_none());
        }
    }
}

async fn members_of(model: &Model, group: &str) -> Vec<String> {
    model.refresh_all().await.unwrap();
    let users = model.entities::<User>().unwrap();
    let is_in = |user: &&Arc<User>| user.groups.iter().any(|in_it| in_it.name == group);
    users
        .iter()
        .filter(is_in)
        .map(|user| user.name.clone())
        .collect()
}

fn moves(join: &[&str], leave: &[&str]) -> GroupChange {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    GroupChange {
        add_users: owned(join),
        remove_users: owned(leave),
        policies: Attachments::default(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_a_group_is_whole_although_its_caller_or_its_node_goes_away() {
    let world = world().await;
    let (here, there) = two(&world).await;
    make_group(&here, "group").await;
    for name in ["alice", "bob", "carol"] {
        make_user(&here, name).await;
    }
    let (first, second) = (["alice"], ["bob", "carol"]);
    here.join_group("alice", "group").await.unwrap();
    let mut is_second = false;
    for delay_ms in (1..100).step_by(4) {
        let (joins, leaves) = match is_second {
            true => (&first[..], &second[..]),
            false => (&second[..], &first[..]),
        };
        here.refresh_all().await.unwrap();
        begin(delay_ms, here.change_group("group", moves(joins, leaves))).await;
        is_second = !is_second;
        assert_eq!(members_of(&there, "group").await, joins, "{delay_ms} ms");
    }
    for delay_ms in (1..100).step_by(7) {
        let (joins, leaves) = match is_second {
            true => (&first[..], &second[..]),
            false => (&second[..], &first[..]),
        };
        here.refresh_all().await.unwrap();
        let cut = async {
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
            world.isolate(0);
            tokio::time::sleep(Duration::from_secs(5)).await;
            world.network.end_all_cuts();
        };
        let change = here.change_group("group", moves(joins, leaves));
        let (changed, ()) = tokio::join!(change, cut);
        changed.unwrap();
        is_second = !is_second;
        assert_eq!(members_of(&there, "group").await, joins, "{delay_ms} ms");
    }
}

/// The node does not know that bob has joined groups elsewhere.
#[tokio::test(start_paused = true)]
async fn a_change_of_a_group_that_is_refused_half_way_is_undone() {
    let world = world().await;
    let (here, there) = two(&world).await;
    for name in ["alice", "bob"] {
        make_user(&here, name).await;
    }
    for number in 0..=Limits::GROUPS {
        make_group(&here, &format!("group{number}")).await;
    }
    there.refresh_all().await.unwrap();
    let groups = (1..=Limits::GROUPS).map(|number| {
        let group = there.entity::<Group>(&format!("group{number}"));
        Reference::to(&*group.unwrap().unwrap())
    });
    let groups: Vec<_> = groups.collect();
    let join = |bob: &mut User| {
        bob.groups.extend(groups.clone());
        Ok(())
    };
    world.isolate(0);
    there.change_entity("bob", join).await.unwrap();
    world.network.end_all_cuts();
    let change = moves(&["alice", "bob"], &[]);
    let refused = here.change_group("group0", change).await;
    assert!(
        matches!(refused, Err(Error::LimitExceeded(_))),
        "{refused:?}"
    );
    assert_eq!(members_of(&there, "group0").await, [""; 0]);
    assert_eq!(members_of(&there, "group1").await, ["bob"]);
}
