//! A store's run history and name, and the runs that it remembers of other stores, in its `meta`.

use archipel_base::Id;
use archipel_base::codec::{self, Versioned};
use archipel_storage::engine::Durability;
use archipel_storage::store::Transact;
use archipel_storage::{Error, RowReader, RowTxn, Store};
use serde::{Deserialize, Serialize};

use super::history::{History, Run};

/// The runs of this store.
const HISTORY: &str = "history";
/// The store's name, if it differs from the store's identity.
const NAME: &str = "name";
/// The remembered run of another store. The name of that store follows.
const SEEN: &str = "seen/";

#[derive(Serialize, Deserialize)]
struct Seen(Run);

impl Versioned for Seen {
    const VERSION: u8 = 1;
}

/// The name and history of a store that has just started a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Begun {
    /// The store's name.
    pub name: Id,
    /// The store's runs, including the new one.
    pub history: History,
    /// This is the first run, and the store was in no layout yet. So no other store remembers
    /// anything of it.
    pub is_new: bool,
}

/// Adds a run, durably. `identity` is the store's name unless it was renamed. `was_in` is true if
/// the store was in a layout.
pub(crate) async fn begin(
    store: &Store,
    identity: Id,
    token: Id,
    was_in: bool,
) -> Result<Begun, Error> {
    let begin = move |txn: &mut RowTxn<'_>| {
        let reader = txn.reader();
        let name = name(&reader)?.unwrap_or(identity);
        let mut history = match reader.meta(HISTORY)? {
            Some(bytes) => codec::decode(&bytes).map_err(damaged)?,
            None => History::default(),
        };
        let is_new = history.is_empty() && !was_in;
        history.begin(token);
        txn.set_meta(HISTORY, Some(&codec::encode(&history)))?;
        Ok(Begun {
            name,
            history,
            is_new,
        })
    };
    store.transact(durably(), begin).await
}

/// Returns the name that the store got; `None` if it has that of its identity.
pub(crate) fn name(rows: &RowReader<'_>) -> Result<Option<Id>, Error> {
    let name = rows.meta(NAME)?;
    let name = name.map(|bytes| Ok(Id(bytes.as_ref().try_into().map_err(damaged)?)));
    name.transpose()
}

/// Returns the name of a store that is not running.
pub(crate) async fn stored_name(store: &Store) -> Result<Id, Error> {
    let given = store.read(name).await?;
    Ok(given.unwrap_or(store.identity()))
}

/// Stores the history, durably.
pub(crate) async fn keep(store: &Store, history: &History) -> Result<(), Error> {
    let bytes = codec::encode(history);
    let keep = move |txn: &mut RowTxn<'_>| txn.set_meta(HISTORY, Some(&bytes));
    store.transact(durably(), keep).await
}

/// Gives the store another name, durably. No other store remembers anything of that name.
pub(crate) async fn rename(store: &Store, name: Id, history: &History) -> Result<(), Error> {
    let bytes = codec::encode(history);
    let rename = move |txn: &mut RowTxn<'_>| {
        txn.set_meta(NAME, Some(name.as_bytes()))?;
        txn.set_meta(HISTORY, Some(&bytes))
    };
    store.transact(durably(), rename).await
}

pub(crate) fn durably() -> Transact {
    Transact::new(Durability::Fsync).bounded()
}

/// Removes what this store remembers of another one.
pub(crate) fn forget(txn: &mut RowTxn<'_>, other: Id) -> Result<(), Error> {
    txn.set_meta(&seen_name(other), None)
}

/// Gives the store a name and an empty history.
pub(crate) fn begin_again(txn: &mut RowTxn<'_>, name: Id) -> Result<(), Error> {
    txn.set_meta(NAME, Some(name.as_bytes()))?;
    txn.set_meta(HISTORY, None)
}

/// Returns the last run that this store remembers of another one.
pub(crate) async fn seen(store: &Store, other: Id) -> Result<Option<Run>, Error> {
    store.read(move |rows| read_seen(rows, other)).await
}

/// Remembers the last run of another store, durably, if it is newer than the remembered one and
/// does not contradict it. Returns what was remembered before.
pub(crate) async fn remember(
    store: &Store,
    other: Id,
    history: History,
) -> Result<Option<Run>, Error> {
    let remember = move |txn: &mut RowTxn<'_>| {
        let before = read_seen(&txn.reader(), other)?;
        let fits = before.is_none_or(|seen| history.contradicts(&seen).is_none());
        if let Some(run) = history.current().filter(|run| fits && before != Some(*run)) {
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
    Error::Damaged(format!("the history of stores: {error}"))
}
