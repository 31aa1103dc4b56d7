//! The pure protocol core: modules that know no runtime, no clock and no locks.
//!
//! Their callers pass time as an argument and drive them, so that a test or a simulation needs no
//! sockets and no sleeps.

use std::collections::BTreeMap;

use super::source;

/// The pure modules: the beginnings of their paths.
const PURE: [&str; 3] = [
    "crates/cluster/src/placement",
    "crates/cluster/src/merge",
    "crates/cluster/src/register",
];

/// Names that a pure module may not use.
const IMPURE: &[&str] = &[
    "tokio",
    "futures_util",
    "async",
    "await",
    "async_trait",
    "Instant",
    "SystemTime",
    "WallClock",
    "Mutex",
    "RwLock",
    "Condvar",
    "OnceLock",
    "mpsc",
    "thread",
    "spawn",
    "archipel_net",
];

/// Returns complaints about all pure modules, also about one that is gone.
pub fn check(files: &BTreeMap<String, String>) -> Vec<String> {
    let gone = PURE.into_iter().filter(|pure| {
        let is_here = |path: &String| is_within(pure, path);
        !files.keys().any(is_here)
    });
    let mut complaints: Vec<String> = gone
        .map(|pure| format!("{pure} is not there: name in PURE where the pure module is now"))
        .collect();
    complaints.extend(files.iter().flat_map(|(path, text)| check_file(path, text)));
    complaints
}

/// Returns complaints about one source file.
pub fn check_file(path: &str, text: &str) -> Vec<String> {
    if !is_pure(path) {
        return Vec::new();
    }
    let code = source::product_code(text);
    let lines = code.lines().enumerate();
    lines
        .flat_map(|(number, line)| {
            let names = line.split(|letter| !source::is_of_name(letter));
            let impure = names.filter(|name| IMPURE.contains(name));
            impure.map(move |name| {
                format!(
                    "{path}:{}: {name}: this module is pure; take what is needed as an argument",
                    number + 1
                )
            })
        })
        .collect()
}

fn is_pure(path: &str) -> bool {
    PURE.iter().any(|pure| is_within(pure, path)) && !source::is_test(path)
}

fn is_within(pure: &str, path: &str) -> bool {
    let rest = path.strip_prefix(pure);
    rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}
