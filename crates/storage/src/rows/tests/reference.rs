//! Rows against a map: random transactions (some fail or panic), failing commits, power cuts and
//! restarts. After each step every row and block is as expected, and a verification finds no
//! problem.

use std::collections::BTreeMap;

use archipel_base::random::{Random, SeededRandom};
use archipel_base::{BlockHash, Id, PartitionId, Stamp, Writer};
use bytes::Bytes;
use proptest::prelude::*;

use crate::blocks::BlockAppender;
use crate::engine::Durability;
use crate::engine::memory::Fault;
use crate::error::Error;
use crate::row::{BlockRef, Payload, Row, RowKey, UsageDelta, Value};
use crate::rows::RowTxn;
use crate::store::Store;
use crate::store::tests::{Parts, assert_clean, block_on};

/// The payload of a row in the model, before there are blocks.
#[derive(Clone, Debug)]
enum Content {
    Empty,
    Inline(u8),
    /// Numbers of blocks. Some occur more than once.
    Blocks(Vec<u8>, Option<u8>),
}

#[derive(Clone, Debug)]
enum Written {
    Promise,
    Tombstone,
    Value(Content, Option<(u8, u32)>),
}

#[derive(Clone, Debug)]
enum Op {
    Set {
        key: u8,
        hours: u8,
        written: Written,
    },
    Promise {
        key: u8,
        hours: u8,
    },
    Forget {
        key: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Ok,
    Err,
    Panic,
    /// The closure succeeds, but the commit fails.
    CommitFails,
}

#[derive(Clone, Debug)]
enum Step {
    Transact(Vec<Op>, Durability, End),
    /// The first few of the unsynced commits survive.
    PowerCut(u64),
    Restart,
    Sync,
}

fn content() -> impl Strategy<Value = Content> {
    let numbers = prop::collection::vec(0u8..5, 0..5);
    prop_oneof![
        Just(Content::Empty),
        any::<u8>().prop_map(Content::Inline),
        (numbers, prop::option::of(any::<u8>()))
            .prop_map(|(numbers, rest)| Content::Blocks(numbers, rest)),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let (key, hours) = (0u8..5, 0u8..60);
    let usage = prop::option::of((0u8..2, 0u32..9));
    let written = prop_oneof![
        1 => Just(Written::Promise),
        2 => Just(Written::Tombstone),
        6 => (content(), usage).prop_map(|(content, usage)| Written::Value(content, usage)),
    ];
    prop_oneof![
        6 => (key.clone(), hours.clone(), written)
            .prop_map(|(key, hours, written)| Op::Set { key, hours, written }),
        1 => (key.clone(), hours).prop_map(|(key, hours)| Op::Promise { key, hours }),
        1 => key.prop_map(|key| Op::Forget { key }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let durability = prop::sample::select(vec![Durability::Fsync, Durability::Buffered]);
    let end = prop_oneof![
        6 => Just(End::Ok),
        1 => Just(End::Err),
        1 => Just(End::Panic),
        1 => Just(End::CommitFails),
    ];
    prop_oneof![
        12 => (prop::collection::vec(op(), 0..4), durability, end)
            .prop_map(|(ops, durability, end)| Step::Transact(ops, durability, end)),
        2 => any::<u64>().prop_map(Step::PowerCut),
        1 => Just(Step::Restart),
        1 => Just(Step::Sync),
    ]
}

fn key(number: u8) -> RowKey {
    // Two partitions, one of them the last.
    let partition = if number < 3 {
        PartitionId(9)
    } else {
        PartitionId::CONTROL
    };
    RowKey {
        partition,
        key: Bytes::from(vec![number; 1 + usize::from(number) * 280]),
    }
}

fn stamp(hours: u8) -> Stamp {
    Stamp::new(1 + u64::from(hours) * 3_600_000, 0, Writer(1))
}

fn block(number: u8) -> Bytes {
    Bytes::from(vec![number; 1000 + usize::from(number)])
}

fn block_ref(number: u8) -> BlockRef {
    let content = block(number);
    BlockRef {
        hash: BlockHash::of(&content),
        len: content.len() as u32,
    }
}

fn row(hours: u8, written: &Written) -> Row {
    let mut row = Row {
        promised: stamp(hours),
        ..Row::default()
    };
    if matches!(written, Written::Promise) {
        return row;
    }
    row.stamp = stamp(hours);
    row.write = Id([hours; 16]);
    if let Written::Value(content, usage) = written {
        row.value = Some(Value {
            metadata: Bytes::from(vec![hours; 3]),
            payload: payload(content),
            usage: usage.map(|(group, size)| UsageDelta {
                group: Id([group; 16]),
                objects: size / 2,
                bytes: u64::from(size),
            }),
            version: None,
        });
    }
    row
}

fn payload(content: &Content) -> Payload {
    match content {
        Content::Empty => Payload::Empty,
        // In the row, or apart.
        Content::Inline(byte) => {
            let length = if byte % 2 == 0 { 7 } else { 600 };
            Payload::Inline(Bytes::from(vec![*byte; length]))
        }
        Content::Blocks(numbers, rest) => {
            let blocks = numbers.iter().map(|number| block_ref(*number)).collect();
            match rest {
                Some(byte) => Payload::BlocksAnd(blocks, Bytes::from(vec![*byte])),
                None => Payload::Blocks(blocks),
            }
        }
    }
}

type Rows = BTreeMap<u8, Row>;

fn run(txn: &mut RowTxn<'_>, op: &Op) -> crate::engine::Result<()> {
    match op {
        Op::Set {
            key: k,
            hours,
            written,
        } => txn.set(&key(*k), &row(*hours, written)),
        Op::Promise { key: k, hours } => txn.promise(&key(*k), stamp(*hours)),
        Op::Forget { key: k } => txn.forget(&key(*k)),
    }
}

fn expect(rows: &mut Rows, op: &Op) {
    match op {
        Op::Set {
            key,
            hours,
            written,
        } => {
            rows.insert(*key, row(*hours, written));
        }
        Op::Promise { key, hours } => rows.entry(*key).or_default().promised = stamp(*hours),
        Op::Forget { key } => {
            rows.remove(key);
        }
    }
}

/// A store, and its expected rows: now, and after a power cut.
struct Test {
    parts: Parts,
    store: Option<Store>,
    now: Rows,
    durable: Rows,
    /// The expected rows after each commit that is not durable.
    unsynced: Vec<Rows>,
}

impl Test {
    fn new() -> Test {
        let parts = Parts::new();
        Test {
            store: Some(parts.open()),
            parts,
            now: Rows::new(),
            durable: Rows::new(),
            unsynced: Vec::new(),
        }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Transact(ops, durability, end) => self.transact(ops, *durability, *end),
            Step::PowerCut(seed) => {
                self.store = None;
                self.now = self.survivor(*seed);
                self.parts.engine.crash_keeping(&SeededRandom::new(*seed));
                self.parts.disk.crash(None);
                self.store = Some(self.parts.open());
                self.synced();
            }
            Step::Restart => {
                block_on(self.store().close()).unwrap();
                self.store = Some(self.parts.open());
                self.synced();
            }
            Step::Sync => {
                block_on(self.store().sync()).unwrap();
                self.synced();
            }
        }
        self.check();
    }

    fn synced(&mut self) {
        self.durable = self.now.clone();
        self.unsynced.clear();
    }

    /// Returns the rows that the engine will have after a power cut.
    fn survivor(&self, seed: u64) -> Rows {
        let survivors: Vec<_> = std::iter::once(&self.durable)
            .chain(&self.unsynced)
            .collect();
        let kept = SeededRandom::new(seed).next_u64() % survivors.len() as u64;
        survivors[kept as usize].clone()
    }

    fn transact(&mut self, ops: &[Op], durability: Durability, end: End) {
        let upload = self.appender(ops);
        let mut next = self.now.clone();
        ops.iter().for_each(|op| expect(&mut next, op));
        if end == End::CommitFails {
            self.inject(0);
        }
        let ops = ops.to_vec();
        let result = block_on(self.store().transact(durability, move |txn| {
            for op in &ops {
                run(txn, op)?;
            }
            match end {
                End::Err => Err(Error::Refused("on purpose".into())),
                // `panic!` would print each time.
                End::Panic => std::panic::resume_unwind(Box::new("on purpose")),
                End::Ok | End::CommitFails => Ok(()),
            }
        }));
        self.inject(u64::MAX);
        drop(upload);
        match (end, &result) {
            // Without changes there is no commit that could fail.
            (End::Ok | End::CommitFails, Ok(())) => {
                assert!(end == End::Ok || next == self.now, "{result:?}");
                self.now = next;
            }
            (End::CommitFails, Err(Error::Io(_))) => return,
            (End::Err | End::Panic, Err(Error::Refused(_))) => {}
            other => panic!("{other:?}"),
        }
        if durability == Durability::Fsync {
            self.synced();
        } else if self.parts.engine.unsynced_commits() > self.unsynced.len() {
            self.unsynced.push(self.now.clone());
        }
    }

    fn inject(&self, after_commits: u64) {
        self.parts.engine.inject(Fault {
            after_commits,
            error: Error::Io("on purpose".into()),
        });
    }

    /// Uploads the blocks that the operations refer to, as a request would.
    fn appender(&self, ops: &[Op]) -> BlockAppender {
        let upload = self.store().appender();
        for op in ops {
            let Op::Set {
                written: Written::Value(Content::Blocks(numbers, _), _),
                ..
            } = op
            else {
                continue;
            };
            for number in numbers {
                let appended = block_on(upload.append(block(*number))).unwrap();
                assert_eq!(appended, block_ref(*number));
            }
        }
        // The upload is not synced: the commit syncs its blocks.
        upload
    }

    fn check(&self) {
        for number in 0..5 {
            let name = key(number);
            let found = block_on(self.store().read(move |rows| rows.row(&name))).unwrap();
            assert_eq!(found.as_ref(), self.now.get(&number), "row {number}");
        }
        for row in self.now.values() {
            for block in row.value.iter().flat_map(|value| value.payload.blocks()) {
                let content = block_on(self.store().read_block(block)).unwrap();
                assert_eq!(BlockHash::of(&content), block.hash);
            }
        }
        assert_clean(self.store());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_transactions_match_a_map(steps in prop::collection::vec(step(), 1..30)) {
        let mut test = Test::new();
        for step in &steps {
            test.step(step);
        }
    }
}
