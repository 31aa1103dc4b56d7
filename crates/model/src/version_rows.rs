//! The rows of versions: what the operations on objects ask of the cluster, in a bucket with
//! versions or without.

use archipel_base::{Stamp, boxed};
/// The version that a write makes.
pub use archipel_cluster::Versioning as Making;
use archipel_cluster::{
    Cluster, Current, Decision, Error, Guard, OpenRow, VersionDecision, VersionSeen, WriteOptions,
};
use archipel_storage::{RowKey, Value, VersionName};
use parking_lot::Mutex;

/// Writes an object's row.
#[boxed]
pub async fn write(
    cluster: &Cluster,
    row: &RowKey,
    value: Option<Value>,
    how: WriteOptions<'_>,
    making: Making,
) -> Result<Stamp, Error> {
    let how = WriteOptions {
        versioning: making,
        ..how
    };
    cluster.write(row, value, how).await
}

/// Reads an object's row, decides, and writes it. Returns the name of the version that it wrote, or
/// the stamp of its write if that makes no version with a name.
pub async fn update<E: Send>(
    cluster: &Cluster,
    row: &RowKey,
    how: WriteOptions<'_>,
    making: Making,
    decide: impl Fn(Current<'_>) -> Decision<E> + Send + Sync,
) -> Result<Result<Stamp, E>, Error> {
    let how = WriteOptions {
        versioning: making,
        ..how
    };
    if making == Making::New {
        return cluster.update_versioned(row, how, decide).await;
    }
    let own = Mutex::new(Stamp::ZERO);
    let noting = |current: Current<'_>| {
        *own.lock() = current.own;
        decide(current)
    };
    let written = cluster.update_stamped(row, how, noting).await?;
    Ok(written.map(|()| own.into_inner()))
}

/// Returns a version, without its payload.
///
/// # Errors
/// [`Error::Guarded`] if one of `guards` does not hold: see [`Cluster::head`].
#[boxed]
pub async fn read_version(
    cluster: &Cluster,
    row: &RowKey,
    name: VersionName,
    making: Making,
    guards: &[Guard],
) -> Result<Option<Value>, Error> {
    if making == Making::Plain && name.is_none() {
        let current = cluster.head(row, guards).await?;
        // Another version is current if this node does not know yet that versions are enabled.
        if current
            .as_ref()
            .is_none_or(|value| value.version_name() == name)
        {
            return Ok(current);
        }
    }
    let found = behind(cluster, row, guards, cluster.version_of(row, name)).await?;
    Ok(found.and_then(|report| report.value))
}

/// Opens a version for reading. One round, as [`read_version`].
#[boxed]
pub async fn open_version(
    cluster: &Cluster,
    row: &RowKey,
    name: VersionName,
    making: Making,
    guards: &[Guard],
) -> Result<Option<OpenRow>, Error> {
    if making == Making::Plain && name.is_none() {
        let current = cluster.open_row(row, guards).await?;
        let is_named = |opened: &OpenRow| opened.value.version_name() == name;
        if current.as_ref().is_none_or(is_named) {
            return Ok(current);
        }
    }
    behind(cluster, row, guards, cluster.open_version(row, name)).await
}

/// Returns what a look at a version finds, unless a guard refuses a read of the object's row. Both
/// take place at once.
async fn behind<T>(
    cluster: &Cluster,
    row: &RowKey,
    guards: &[Guard],
    look: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    if guards.is_empty() {
        return look.await;
    }
    let (found, head) = tokio::join!(look, cluster.head(row, guards));
    head.and(found)
}

/// Decides about a version: deletes it, or changes its metadata.
pub async fn decide_version<E: Send>(
    cluster: &Cluster,
    row: &RowKey,
    name: VersionName,
    how: WriteOptions<'_>,
    making: Making,
    decide: impl Fn(&VersionSeen<'_>) -> VersionDecision<E> + Send + Sync,
) -> Result<Result<(), E>, Error> {
    if making != Making::Plain {
        return cluster.decide_version(row, name, how, decide).await;
    }
    // The value refers to the content of the version that it is decided on, so an update that
    // others overtake decides once more and never brings dropped content back.
    let decide = |current: Option<&Value>| {
        let named = current.filter(|value| value.version_name() == name);
        let seen = VersionSeen {
            named,
            is_current: named.is_some(),
            last: None,
            current,
            is_alone: true,
        };
        match decide(&seen) {
            VersionDecision::Abort(error) | VersionDecision::Absent(error) => {
                Decision::Abort(error)
            }
            VersionDecision::Kill => Decision::Write(None),
            VersionDecision::Change(metadata) => {
                let changed = current.map(|value| Value {
                    metadata,
                    ..value.clone()
                });
                Decision::Write(changed)
            }
        }
    };
    cluster.update(row, how, decide).await
}
