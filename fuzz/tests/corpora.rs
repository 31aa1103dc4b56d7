//! Runs the inputs of the corpora and variants of them, so that each target holds without libFuzzer, too.

use std::path::{Path, PathBuf};

use archipel_base::random::{Random, SeededRandom};
use archipel_fuzz::TARGETS;

/// The number of variants of each input that run.
const VARIANTS: u64 = 20;

fn inputs(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target);
    let files = std::fs::read_dir(&folder).expect("a corpus for each target");
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).expect("an input");
        (path, bytes)
    };
    paths.into_iter().map(read).collect()
}

/// Returns the input with one change: a byte, a part that is missing, or a part that is there twice.
fn variant(input: &[u8], random: &SeededRandom) -> Vec<u8> {
    let below = |most: usize| (random.next_u64() % most.max(1) as u64) as usize;
    let (one, other) = (below(input.len()), below(input.len()));
    let (from, to) = (one.min(other), one.max(other));
    let (head, rest) = input.split_at(from);
    let (part, tail) = rest.split_at(to - from);
    match below(4) {
        0 => [head, tail].concat(),
        1 => [head, part, part, tail].concat(),
        _ => {
            let mut bytes = input.to_vec();
            if let Some(byte) = bytes.get_mut(one) {
                *byte = below(256) as u8;
            }
            bytes
        }
    }
}

fn run(name: &str) {
    let (_, target) = TARGETS
        .iter()
        .find(|(known, _)| *known == name)
        .expect("a target");
    let all = inputs(name);
    assert!(!all.is_empty(), "{name} has no input");
    let random = SeededRandom::new(1);
    for (path, input) in all {
        println!("{}", path.display());
        target(&input);
        for _ in 0..VARIANTS {
            target(&variant(&input, &random));
        }
    }
}

#[test]
fn policies() {
    run("policy");
}

#[test]
fn requests_to_s3() {
    run("s3");
}

#[test]
fn requests_to_iam() {
    run("iam");
}

#[test]
fn requests_to_k2v() {
    run("k2v");
}

#[test]
fn calls_of_nodes() {
    run("node");
}

#[test]
fn stored_data() {
    run("store");
}
