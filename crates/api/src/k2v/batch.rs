//! `InsertBatch`, `ReadBatch`, `DeleteBatch`.

use archipel_model::Bucket;
use archipel_model::k2v::{Insert, Item, ItemName, Page, Range};
use http::StatusCode;
use serde::{Deserialize, Deserializer, Serialize};

use super::answer::{ItemText, json, parse, token, value};
use super::route::limit;
use super::service::Permit;
use crate::s3::call::Call;
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::respond::{Answer, empty};

/// The longest document.
const MAX_DOCUMENT_BYTES: usize = 8 << 20;
/// The most items of `InsertBatch`.
const MAX_INSERTS: usize = 10_000;
/// The most searches of `ReadBatch` and `DeleteBatch`.
const MAX_SEARCHES: usize = 1000;
/// The most memory that the single items of an answer may take, and its ranges as much again, in
/// bytes.
const MAX_ANSWER_BYTES: usize = 16 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InsertText {
    pk: String,
    sk: String,
    #[serde(default)]
    ct: Option<String>,
    /// A deletion is asked for by `null`, not by leaving it out.
    #[serde(deserialize_with = "value_or_null")]
    v: Option<String>,
}

fn value_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Option::deserialize(deserializer)
}

impl InsertText {
    fn insert(self) -> S3Result<Insert> {
        Ok(Insert {
            name: ItemName::new(&self.pk, &self.sk)?,
            token: self.ct.as_deref().map(token).transpose()?,
            value: self.v.as_deref().map(value).transpose()?,
        })
    }
}

/// A search, as it is sent and as it is repeated in the answer.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Search {
    partition_key: String,
    #[serde(default)]
    prefix: Option<String>,
    #[serde(default)]
    start: Option<String>,
    #[serde(default)]
    end: Option<String>,
    #[serde(default)]
    limit: Option<u64>,
    #[serde(default)]
    reverse: bool,
    #[serde(default)]
    conflicts_only: bool,
    #[serde(default)]
    tombstones: bool,
    #[serde(default)]
    single_item: bool,
}

impl Search {
    /// Returns the one item that is searched; `None` if the search is for a range.
    fn single(&self) -> S3Result<Option<ItemName>> {
        if !self.single_item {
            return Ok(None);
        }
        let bounded = self.prefix.is_some() || self.end.is_some() || self.limit.is_some();
        match &self.start {
            Some(sk) if !bounded && !self.reverse => {
                Ok(Some(ItemName::new(&self.partition_key, sk)?))
            }
            _ => {
                let why = "A search with singleItem has start, and neither prefix, end, limit nor reverse.";
                Err(S3Error::new(Code::InvalidRequest, why))
            }
        }
    }

    fn range(&self) -> S3Result<Range> {
        let range = Range {
            pk: self.partition_key.clone(),
            prefix: self.prefix.clone(),
            start: self.start.clone(),
            end: self.end.clone(),
            limit: limit(self.limit)?,
            reverse: self.reverse,
            conflicts_only: self.conflicts_only,
            tombstones: self.tombstones,
        };
        range.check()?;
        Ok(range)
    }

    /// Returns the one item that is to be deleted, or else the range. A search for items to delete
    /// may have all fields, but those that choose among the items of a range, or order them, must
    /// be `null` or false.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`], [`Code::InvalidArgument`].
    fn deletion(&self) -> S3Result<(Option<ItemName>, Range)> {
        let chooses = self.limit.is_some() || self.conflicts_only || self.tombstones;
        if chooses || self.reverse {
            let why = "A deletion has neither limit, reverse, conflictsOnly nor tombstones.";
            return Err(S3Error::new(Code::InvalidRequest, why));
        }
        Ok((self.single()?, self.range()?))
    }

    /// Returns true if an item is among those that are searched.
    fn wants(&self, item: &Item) -> bool {
        (self.tombstones || !item.is_tombstone()) && (!self.conflicts_only || item.values.len() > 1)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    #[serde(flatten)]
    search: Search,
    items: Vec<ItemText>,
    more: bool,
    next_start: Option<String>,
}

/// The result of one deletion of a batch.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Deleted {
    partition_key: String,
    prefix: Option<String>,
    start: Option<String>,
    end: Option<String>,
    single_item: bool,
    deleted_items: u64,
}

impl Deleted {
    fn new(search: Search, deleted_items: u64) -> Deleted {
        Deleted {
            partition_key: search.partition_key,
            prefix: search.prefix,
            start: search.start,
            end: search.end,
            single_item: search.single_item,
            deleted_items,
        }
    }
}

fn check_count(what: &str, count: usize, most: usize) -> S3Result<()> {
    if count <= most {
        return Ok(());
    }
    let why = format!("There are {count} {what}; at most {most} are allowed.");
    Err(S3Error::new(Code::InvalidRequest, why))
}

/// Returns the error of an entry of a list, by its place from 0. The message names the entry if it
/// is wrong: other errors are not about it.
fn of_entry(what: &str, place: usize, error: S3Error) -> S3Error {
    if error.code().status() != StatusCode::BAD_REQUEST {
        return error;
    }
    let why = format!("{what} {} of the list: {}", place + 1, error.message());
    S3Error::new(error.code(), why)
}

/// Does the same for a search.
fn of_search(place: usize) -> impl Fn(S3Error) -> S3Error {
    move |error| of_entry("Search", place, error)
}

/// Answers `InsertBatch`.
pub async fn insert(call: &mut Call<'_>, bucket: &Bucket, permit: &Permit<'_>) -> S3Result<Answer> {
    let document = call.document(MAX_DOCUMENT_BYTES).await?;
    let _place = permit.batch().await;
    let inserts: Vec<InsertText> = parse(&document)?;
    drop(document);
    check_count("items", inserts.len(), MAX_INSERTS)?;
    let numbered = inserts.into_iter().enumerate();
    let named = |(place, insert): (usize, InsertText)| {
        let wrong = |error| of_entry("Item", place, error);
        insert.insert().map_err(wrong)
    };
    let inserts: S3Result<Vec<Insert>> = numbered.map(named).collect();
    let inserted = call.model.insert_items(bucket, inserts?).await;
    inserted.map_err(|failed| of_entry("Item", failed.place, failed.error.into()))?;
    Ok(empty(StatusCode::NO_CONTENT))
}

/// Answers `ReadBatch`.
pub async fn read(call: &mut Call<'_>, bucket: &Bucket, permit: &Permit<'_>) -> S3Result<Answer> {
    let document = call.document(MAX_DOCUMENT_BYTES).await?;
    let _place = permit.batch().await;
    let searches: Vec<Search> = parse(&document)?;
    check_count("searches", searches.len(), MAX_SEARCHES)?;
    let (mut singles, mut ranges) = (Vec::new(), Vec::new());
    for (number, search) in searches.iter().enumerate() {
        match search.single().map_err(of_search(number))? {
            Some(name) => singles.push((number, name)),
            None => ranges.push((number, search.range().map_err(of_search(number))?)),
        }
    }
    let (of_singles, names): (Vec<usize>, Vec<ItemName>) = singles.into_iter().unzip();
    let (numbers, ranges): (Vec<usize>, Vec<Range>) = ranges.into_iter().unzip();
    let (items, pages) = tokio::try_join!(
        call.model.read_items(bucket, &names, MAX_ANSWER_BYTES),
        call.model.read_ranges(bucket, &ranges, MAX_ANSWER_BYTES),
    )?;
    let mut found: Vec<Page> = vec![Page::default(); searches.len()];
    for ((number, name), item) in of_singles.into_iter().zip(names).zip(items) {
        let item = item.filter(|item| searches[number].wants(item));
        found[number].items.extend(item.map(|item| (name.sk, item)));
    }
    for (number, page) in numbers.into_iter().zip(pages) {
        found[number] = page;
    }
    let found = searches.into_iter().zip(found).map(|(search, page)| Found {
        search,
        items: page.items.into_iter().map(ItemText::new).collect(),
        more: page.next.is_some(),
        next_start: page.next,
    });
    json(StatusCode::OK, &found.collect::<Vec<_>>())
}

/// Answers `DeleteBatch`.
pub async fn delete(call: &mut Call<'_>, bucket: &Bucket, permit: &Permit<'_>) -> S3Result<Answer> {
    let document = call.document(MAX_DOCUMENT_BYTES).await?;
    let _place = permit.batch().await;
    let deletions: Vec<Search> = parse(&document)?;
    check_count("searches", deletions.len(), MAX_SEARCHES)?;
    let mut checked = Vec::with_capacity(deletions.len());
    for (number, deletion) in deletions.iter().enumerate() {
        checked.push(deletion.deletion().map_err(of_search(number))?);
    }
    let mut deleted = Vec::with_capacity(checked.len());
    for (deletion, (single, range)) in deletions.into_iter().zip(checked) {
        let deleted_items = match single {
            Some(name) => call.model.delete_item(bucket, &name).await?,
            None => call.model.delete_range(bucket, &range).await?,
        };
        deleted.push(Deleted::new(deletion, deleted_items));
    }
    json(StatusCode::OK, &deleted)
}
