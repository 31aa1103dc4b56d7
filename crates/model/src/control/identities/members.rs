//! Changes of a group and its users. Each user is a row of its own, and so is the group: the change
//! is completed although its caller goes away or other nodes do not answer for a while, and undone
//! if it is refused half-way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use archipel_base::{NodeId, boxed};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::Error;
use crate::identity::{Changed, Group, GroupChange, Limits, Reference, User};
use crate::{Model, detached};

/// The time for which a step that cannot be taken is tried again.
const PATIENCE: Duration = Duration::from_secs(30);

/// The pause before that.
const PAUSE: Duration = Duration::from_millis(500);

/// The users that a change moves, each with whether it joins (true) or leaves, in this order.
type Moves = BTreeMap<String, Vec<bool>>;

impl Model {
    /// Changes the users and the policies of a group. All that can be refused is refused before the
    /// first write. A step that is refused later, because another change came in between, undoes
    /// the writes before it.
    /// A caller that goes away does not stop the change.
    ///
    /// If this fails because too few nodes answer, or if this node crashes, some of the users may
    /// have been moved.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`], [`Error::LimitExceeded`].
    #[boxed]
    pub async fn change_group(
        &self,
        name: &str,
        change: GroupChange,
    ) -> Result<Changed<Arc<Group>>, Error> {
        let (model, name) = (self.clone(), name.to_owned());
        let work = async move { model.change_group_now(&name, change).await };
        detached("changes a group", work).await
    }

    async fn change_group_now(
        &self,
        name: &str,
        change: GroupChange,
    ) -> Result<Changed<Arc<Group>>, Error> {
        let group = self.find_entity::<Group>(name).await?;
        let policies = self.find_attachments(change.policies).await?;
        policies.apply(&mut Group::clone(&group))?;
        let mut moves = Moves::new();
        let joining = change.add_users.iter().map(|user| (user, true));
        let leaving = change.remove_users.iter().map(|user| (user, false));
        for (user, joins) in joining.chain(leaving) {
            let user = self.find_entity::<User>(user).await?;
            moves.entry(user.name.clone()).or_default().push(joins);
        }
        let meant = Reference::to(&*group);
        for (user, steps) in &moves {
            let mut user = User::clone(&*self.find_entity(user).await?);
            move_user(&mut user, &meant, steps)?;
        }
        let (mut before, mut unconfirmed) = (BTreeMap::new(), BTreeSet::new());
        let moved = self.move_users(&meant, &moves, &mut before, &mut unconfirmed);
        let mut changed = moved.await.map(|()| group);
        if let (Ok(group), false) = (&mut changed, policies.is_empty()) {
            match self.change_attached(name, policies, |_| Ok(())).await {
                Ok(with_policies) => {
                    unconfirmed.extend(with_policies.unconfirmed);
                    *group = with_policies.value;
                }
                Err(error) => changed = Err(error),
            }
        }
        if changed.is_err() {
            self.move_back(&meant, &before).await;
        }
        Ok(Changed {
            value: changed?,
            unconfirmed: unconfirmed.into_iter().collect(),
        })
    }

    /// Moves users, and notes which of them may have been moved, each with whether it was in the
    /// group `before`.
    async fn move_users(
        &self,
        group: &Reference,
        moves: &Moves,
        before: &mut BTreeMap<String, bool>,
        unconfirmed: &mut BTreeSet<NodeId>,
    ) -> Result<(), Error> {
        for (name, steps) in moves {
            let patience = Patience::begin();
            loop {
                let known = before.get(name).copied();
                let was_in = Mutex::new(known);
                let changed = self.change_entity(name, |user: &mut User| {
                    // A try whose outcome nobody knows may have moved the user already.
                    if known.is_some() {
                        put_user(user, group, steps.last() == Some(&true));
                        return Ok(());
                    }
                    let is_in = user.groups.contains(group);
                    move_user(user, group, steps)?;
                    *was_in.lock() = Some(is_in);
                    Ok(())
                });
                let changed = changed.await;
                if let Some(was_in) = was_in.into_inner() {
                    before.insert(name.clone(), was_in);
                }
                match changed {
                    Ok(changed) => {
                        unconfirmed.extend(changed.unconfirmed);
                        break;
                    }
                    Err(error) => patience.wait(error).await?,
                }
            }
        }
        if moves.values().any(|steps| steps.last() == Some(&true)) {
            let patience = Patience::begin();
            while let Err(error) = self.confirm::<Group>(group).await {
                patience.wait(error).await?;
            }
        }
        Ok(())
    }

    /// Undoes the moves of a change that failed.
    async fn move_back(&self, group: &Reference, before: &BTreeMap<String, bool>) {
        for (name, was_in) in before {
            let patience = Patience::begin();
            loop {
                let undo = |user: &mut User| {
                    put_user(user, group, *was_in);
                    Ok(())
                };
                let error = match self.change_entity(name, undo).await {
                    Ok(_) | Err(Error::NoSuchEntity(_)) => break,
                    Err(error) => error,
                };
                if let Err(error) = patience.wait(error).await {
                    let group = &group.name;
                    tracing::warn!(%error, user = name, group, "a change of a group stopped half-way");
                    break;
                }
            }
        }
    }

    /// Adds a user to a group.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`], [`Error::LimitExceeded`].
    #[boxed]
    pub async fn join_group(&self, user: &str, group: &str) -> Result<Changed<()>, Error> {
        let change = GroupChange {
            add_users: vec![user.to_owned()],
            ..GroupChange::default()
        };
        self.change_group(group, change).await.map(Changed::forget)
    }

    /// Removes a user from a group.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`].
    #[boxed]
    pub async fn leave_group(&self, user: &str, group: &str) -> Result<Changed<()>, Error> {
        let change = GroupChange {
            remove_users: vec![user.to_owned()],
            ..GroupChange::default()
        };
        self.change_group(group, change).await.map(Changed::forget)
    }
}

/// The begin of a step that is tried again for [`PATIENCE`].
struct Patience(Instant);

impl Patience {
    fn begin() -> Patience {
        Patience(Instant::now())
    }

    /// Waits until the step may be tried again after this error. Returns the error if it may not.
    async fn wait(&self, error: Error) -> Result<(), Error> {
        if !may_pass(&error) || self.0.elapsed() >= PATIENCE {
            return Err(error);
        }
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }
}

/// Returns true if the same step may succeed a moment later.
fn may_pass(error: &Error) -> bool {
    matches!(
        error,
        Error::Unavailable(_) | Error::Unconfirmed(_) | Error::Busy(_) | Error::Full(_)
    )
}

/// Lets a user join a group (true) and leave it (false), in this order.
fn move_user(user: &mut User, group: &Reference, steps: &[bool]) -> Result<(), Error> {
    for joins in steps {
        if *joins {
            user.groups.retain(|other| other.name != group.name);
            user.groups.insert(group.clone());
        } else if !user.groups.remove(group) {
            return Err(Error::NoSuchEntity(format!(
                "The user {} is not in the group {}.",
                user.name, group.name
            )));
        }
    }
    if user.groups.len() > Limits::GROUPS {
        return Err(Error::LimitExceeded(format!(
            "Cannot exceed quota for GroupsPerUser: {}",
            Limits::GROUPS
        )));
    }
    Ok(())
}

/// Puts a user into a group, or takes it out, whatever it was.
fn put_user(user: &mut User, group: &Reference, is_in: bool) {
    match is_in {
        true => drop(user.groups.insert(group.clone())),
        false => drop(user.groups.remove(group)),
    }
}
