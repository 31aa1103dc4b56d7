//! A store's lineage and name, and what is remembered of others, in its `meta`.

use archipel_base::Id;
use archipel_base::codec::{self, Versioned};
use archipel_storage::engine::Durability;
use archipel_storage::store::Transact;
use archipel_storage::{Error, RowReader, RowTxn, Store};
use serde::{Deserialize, Serialize};

use super::{Lineage, Run};

/// The runs of this store.
const LINEAGE: &str = "lineage";
/// Its name, if it is not its identity any more.
const NAME: &str = "name";
/// What is remembered of another store; its name follows.
const SEEN: &str = "seen/";

#[derive(Serialize, Deserialize)]
struct Seen(Run);

impl Versioned for Seen {
    const VERSION: u8 = 1;
}

/// What a store says of itself when it starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Begun {
    /// Its name.
    pub name: Id,
    /// Its runs, this one too.
    pub lineage: Lineage,
    /// Nobody can remember anything of it: this is its first run, and it was in no layout yet.
    pub is_new: bool,
}

/// Begins a run, durably. `identity` is the store's name unless it was given another; `was_in` says that it was in a layout.
pub(crate) async fn begin(
    store: &Store,
    identity: Id,
    token: Id,
    was_in: bool,
) -> Result<Begun, Error> {
    let begin = move |txn: &mut RowTxn<'_>| {
        let reader = txn.reader();
        let name = match reader.meta(NAME)? {
            Some(bytes) => Id(bytes.as_ref().try_into().map_err(damaged)?),
            None => identity,
        };
        let mut lineage = match reader.meta(LINEAGE)? {
            Some(bytes) => codec::decode(&bytes).map_err(damaged)?,
            None => Lineage::default(),
        };
        let is_new = lineage.is_empty() && !was_in;
        lineage.begin(token);
        txn.set_meta(LINEAGE, Some(&codec::encode(&lineage)))?;
        Ok(Begun {
            name,
            lineage,
            is_new,
        })
    };
    store.transact(durably(), begin).await
}

/// Keeps the lineage, durably.
pub(crate) async fn keep(store: &Store, lineage: &Lineage) -> Result<(), Error> {
    let bytes = codec::encode(lineage);
    let keep = move |txn: &mut RowTxn<'_>| txn.set_meta(LINEAGE, Some(&bytes));
    store.transact(durably(), keep).await
}

/// The store goes on under another name, of which nobody remembers anything.
pub(crate) async fn rename(store: &Store, name: Id, lineage: &Lineage) -> Result<(), Error> {
    let bytes = codec::encode(lineage);
    let rename = move |txn: &mut RowTxn<'_>| {
        txn.set_meta(NAME, Some(name.as_bytes()))?;
        txn.set_meta(LINEAGE, Some(&bytes))
    };
    store.transact(durably(), rename).await
}

pub(super) fn durably() -> Transact {
    Transact::new(Durability::Fsync).bounded()
}

/// Nothing is remembered of a store any more.
pub(super) fn forget(txn: &mut RowTxn<'_>, other: Id) -> Result<(), Error> {
    txn.set_meta(&seen_name(other), None)
}

/// The store goes on under this name, and has no past.
pub(super) fn begin_anew(txn: &mut RowTxn<'_>, name: Id) -> Result<(), Error> {
    txn.set_meta(NAME, Some(name.as_bytes()))?;
    txn.set_meta(LINEAGE, None)
}

/// What is remembered of a store.
pub(crate) async fn seen(store: &Store, other: Id) -> Result<Option<Run>, Error> {
    store.read(move |rows| read_seen(rows, other)).await
}

/// Remembers the end of a store's lineage, durably, if it is newer than what is remembered and does not contradict it; gives
/// what was remembered before.
pub(crate) async fn remember(
    store: &Store,
    other: Id,
    lineage: Lineage,
) -> Result<Option<Run>, Error> {
    let remember = move |txn: &mut RowTxn<'_>| {
        let before = read_seen(&txn.reader(), other)?;
        let fits = before.is_none_or(|seen| lineage.contradicts(&seen).is_none());
        if let Some(run) = lineage.current().filter(|run| fits && before != Some(*run)) {
            txn.set_meta(&seen_name(other), Some(&codec::encode(&Seen(run))))?;
        }
        Ok(before)
    };
    store.transact(durably(), remember).await
}

fn read_seen(rows: &RowReader<'_>, other: Id) -> Result<Option<Run>, Error> {
    let Some(bytes) = rows.meta(&seen_name(other))? else {
        return Ok(None);
    };
    let Seen(run) = codec::decode(&bytes).map_err(damaged)?;
    Ok(Some(run))
}

fn seen_name(other: Id) -> String {
    format!("{SEEN}{other}")
}

fn damaged(error: impl std::fmt::Display) -> Error {
    Error::Damaged(format!("the lineage of stores: {error}"))
}
