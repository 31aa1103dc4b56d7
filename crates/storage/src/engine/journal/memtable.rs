//! Changes in memory, ordered by key, and the merged view of several layers of them.

use std::collections::BTreeMap;
use std::iter::Peekable;

use bytes::Bytes;
use rpds::RedBlackTreeMapSync;

use crate::engine::{Direction, Flow, KeyRange, ReadTxn, Result, Tree, Visitor};

/// The estimated memory for an entry beside its key and value, in bytes.
const ENTRY_BYTES: usize = 200;

/// The last change of each key: a value, or `None` if the key was removed.
///
/// Copies share structure, so a copy costs nothing and a change O(log n).
#[derive(Clone, Default)]
pub(super) struct Memtable {
    trees: [RedBlackTreeMapSync<Bytes, Option<Bytes>>; Tree::ALL.len()],
    bytes: usize,
}

impl Memtable {
    /// Records a change.
    pub fn insert(&mut self, tree: Tree, key: Bytes, value: Option<Bytes>) {
        let tree = &mut self.trees[tree as usize];
        let added = size_of_entry(&key, value.as_ref());
        let replaced = tree
            .get(&key)
            .map_or(0, |old| size_of_entry(&key, old.as_ref()));
        tree.insert_mut(key, value);
        self.bytes = self.bytes + added - replaced;
    }

    /// Returns about how much memory the changes take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.trees.iter().all(RedBlackTreeMapSync::is_empty)
    }

    /// Returns all changes, in the order of trees and keys.
    pub fn iter(&self) -> impl Iterator<Item = (Tree, &Bytes, Option<&Bytes>)> {
        Tree::ALL.into_iter().flat_map(|tree| {
            let entries = self.trees[tree as usize].iter();
            entries.map(move |(key, value)| (tree, key, value.as_ref()))
        })
    }
}

fn size_of_entry(key: &Bytes, value: Option<&Bytes>) -> usize {
    ENTRY_BYTES + key.len() + value.map_or(0, Bytes::len)
}

/// The changes of a transaction that is not committed yet.
#[derive(Default)]
pub(super) struct Changes(pub [BTreeMap<Bytes, Option<Bytes>>; Tree::ALL.len()]);

/// A set of changes that hides what is below it.
pub(super) trait Layer {
    /// Returns the change of `key`, if it has one.
    fn change(&self, tree: Tree, key: &[u8]) -> Option<Option<&[u8]>>;

    /// Returns the changes of `range` in order.
    fn range<'l>(&'l self, tree: Tree, range: KeyRange<'l>, direction: Direction) -> Entries<'l>;
}

type Entry<'l> = (&'l [u8], Option<&'l [u8]>);
type Entries<'l> = Box<dyn Iterator<Item = Entry<'l>> + 'l>;

impl Layer for Memtable {
    fn change(&self, tree: Tree, key: &[u8]) -> Option<Option<&[u8]>> {
        self.trees[tree as usize].get(key).map(Option::as_deref)
    }

    fn range<'l>(&'l self, tree: Tree, range: KeyRange<'l>, direction: Direction) -> Entries<'l> {
        let tree = &self.trees[tree as usize];
        if tree.is_empty() {
            return Box::new(std::iter::empty());
        }
        ordered(tree.range::<[u8], KeyRange<'l>>(range), direction)
    }
}

impl Layer for Changes {
    fn change(&self, tree: Tree, key: &[u8]) -> Option<Option<&[u8]>> {
        self.0[tree as usize].get(key).map(Option::as_deref)
    }

    fn range<'l>(&'l self, tree: Tree, range: KeyRange<'l>, direction: Direction) -> Entries<'l> {
        ordered(
            self.0[tree as usize].range::<[u8], KeyRange<'l>>(range),
            direction,
        )
    }
}

fn ordered<'l>(
    entries: impl DoubleEndedIterator<Item = (&'l Bytes, &'l Option<Bytes>)> + 'l,
    direction: Direction,
) -> Entries<'l> {
    let entries = entries.map(|(key, value)| (&key[..], value.as_deref()));
    match direction {
        Direction::Ascending => Box::new(entries),
        Direction::Descending => Box::new(entries.rev()),
    }
}

/// Visits the entries that `layers`, the newest first, and `below` show together. `range` must be a
/// possible one.
pub(super) fn scan(
    layers: &[&dyn Layer],
    below: &dyn ReadTxn,
    tree: Tree,
    range: KeyRange<'_>,
    direction: Direction,
    visit: &mut Visitor<'_>,
) -> Result<()> {
    let mut recent = Recent::new(layers, tree, range, direction);
    if recent.peek().is_none() {
        return below.scan(tree, range, direction, visit);
    }
    let mut flow = Flow::Continue;
    below.scan(tree, range, direction, &mut |key, value| {
        while let Some(next) = recent.peek().filter(|next| is_before(next, key, direction)) {
            flow = recent.visit(next, visit)?;
            if flow == Flow::Stop {
                return Ok(flow);
            }
        }
        flow = match recent.peek().filter(|next| *next == key) {
            Some(next) => recent.visit(next, visit)?,
            None => visit(key, value)?,
        };
        Ok(flow)
    })?;
    while flow == Flow::Continue
        && let Some(next) = recent.peek()
    {
        flow = recent.visit(next, visit)?;
    }
    Ok(())
}

fn is_before(a: &[u8], b: &[u8], direction: Direction) -> bool {
    match direction {
        Direction::Ascending => a < b,
        Direction::Descending => a > b,
    }
}

/// The changes of several layers, merged.
struct Recent<'l> {
    /// The newest first.
    layers: Vec<Peekable<Entries<'l>>>,
    direction: Direction,
}

impl<'l> Recent<'l> {
    fn new(
        layers: &[&'l dyn Layer],
        tree: Tree,
        range: KeyRange<'l>,
        direction: Direction,
    ) -> Recent<'l> {
        let layers = layers
            .iter()
            .map(|layer| layer.range(tree, range, direction));
        Recent {
            layers: layers.map(Iterator::peekable).collect(),
            direction,
        }
    }

    /// Returns the next changed key.
    fn peek(&mut self) -> Option<&'l [u8]> {
        let direction = self.direction;
        let keys = self.layers.iter_mut().filter_map(|layer| layer.peek());
        keys.map(|(key, _)| *key)
            .reduce(|a, b| if is_before(b, a, direction) { b } else { a })
    }

    /// Visits `key`, which [`peek`](Recent::peek) returned, unless it was removed.
    fn visit(&mut self, key: &[u8], visit: &mut Visitor<'_>) -> Result<Flow> {
        let mut newest = None;
        for layer in &mut self.layers {
            let found = layer.next_if(|(next, _)| *next == key);
            newest = newest.or(found);
        }
        match newest {
            Some((key, Some(value))) => visit(key, value),
            _ => Ok(Flow::Continue),
        }
    }
}
