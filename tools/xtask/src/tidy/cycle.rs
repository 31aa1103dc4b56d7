//! Cycles of modules: within a crate, few top-level modules may import one another in turn.
//!
//! Modules in a cycle can be read, tested and changed only together.

use std::collections::{BTreeMap, BTreeSet};

use super::source;

/// The most modules of a crate that may import one another in a cycle.
const MOST: usize = 3;

/// Crates with a larger cycle, and its size: a ratchet. Open the cycle and lower the number.
const ALLOWED: &[(&str, usize)] = &[];

type Graph = BTreeMap<String, BTreeSet<String>>;

/// Returns complaints about all crates. `files` has the path and the text of every text file.
pub fn check(files: &BTreeMap<String, String>) -> Vec<String> {
    check_with(files, ALLOWED)
}

/// Returns the same, with other allowances.
pub fn check_with(files: &BTreeMap<String, String>, allowed: &[(&str, usize)]) -> Vec<String> {
    let in_crates = files.keys().filter_map(|path| path.strip_prefix("crates/"));
    let crates: BTreeSet<&str> = in_crates
        .filter_map(|path| Some(path.split_once("/src/")?.0))
        .collect();
    let complaints = crates.into_iter().flat_map(|name| {
        let cycles = cycles(&graph(name, files));
        let allowance = allowed.iter().find(|(allowed, _)| *allowed == name);
        complaints_of(name, &cycles, allowance.map(|(_, most)| *most))
    });
    complaints.collect()
}

fn complaints_of(name: &str, cycles: &[BTreeSet<String>], allowance: Option<usize>) -> Vec<String> {
    let most = allowance.unwrap_or(MOST);
    let too_large = cycles.iter().filter(|cycle| cycle.len() > most);
    let mut complaints: Vec<String> = too_large
        .map(|cycle| {
            let names: Vec<&str> = cycle.iter().map(String::as_str).collect();
            format!(
                "crates/{name}: {} modules import one another in a cycle, at most {most} may: {}; \
                 move what they share into a module below them",
                names.len(),
                names.join(", ")
            )
        })
        .collect();
    let largest = cycles.iter().map(BTreeSet::len).max().unwrap_or_default();
    if allowance.is_some_and(|most| largest < most) {
        complaints.push(format!(
            "crates/{name}: the largest cycle has {largest} modules; lower or remove its number in ALLOWED"
        ));
    }
    complaints
}

/// Returns which top-level modules of a crate use which others.
fn graph(name: &str, files: &BTreeMap<String, String>) -> Graph {
    let folder = format!("crates/{name}/src/");
    let root = ["lib.rs", "main.rs"]
        .iter()
        .find_map(|file| files.get(&format!("{folder}{file}")));
    let root = root.map_or("", String::as_str);
    let modules: BTreeSet<String> = source::modules(root).into_iter().collect();
    let exported = exported(root, &modules);
    let mut graph: Graph = modules
        .iter()
        .map(|m| (m.clone(), BTreeSet::new()))
        .collect();
    for (path, text) in files {
        let Some(inner) = path.strip_prefix(&folder) else {
            continue;
        };
        let levels = levels(inner);
        let module = levels.first().copied().unwrap_or_default();
        let Some(uses) = graph.get_mut(module).filter(|_| !source::is_test(path)) else {
            continue;
        };
        let names = root_names(&source::product_code(text), levels.len());
        let used = names
            .into_iter()
            .filter_map(|name| match modules.contains(&name) {
                true => Some(name),
                false => exported.get(&name).cloned(),
            });
        uses.extend(used.filter(|used| used != module));
    }
    graph
}

/// Returns the module path of a source file, from the crate's root.
fn levels(inner: &str) -> Vec<&str> {
    let path = inner.trim_end_matches(".rs").trim_end_matches("/mod");
    path.split('/').collect()
}

/// Returns the names that the crate's root takes from its modules, each with its module.
fn exported(root: &str, modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let code = source::product_code(root);
    let statements = code.split(';').filter_map(|statement| {
        let (_, path) = statement.split_once("use ")?;
        let path = path
            .trim_start_matches("crate::")
            .trim_start_matches("self::");
        let module = first_name(path);
        modules.contains(module).then_some((module, path))
    });
    statements
        .flat_map(|(module, path)| {
            let names = path.split(|letter| !source::is_of_name(letter)).skip(1);
            names.map(move |name| (name.to_owned(), module.to_owned()))
        })
        .collect()
}

/// Returns the names that code takes from the crate's root, by `crate::` or enough of `super::`.
fn root_names(code: &str, depth: usize) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut rest = code;
    while let Some(at) = rest.find("::") {
        let word = rest[..at]
            .rsplit(|letter| !source::is_of_name(letter))
            .next();
        let word = word.unwrap_or_default();
        rest = &rest[at + 2..];
        match word {
            "crate" => names.extend(first_names(rest)),
            "super" => {
                let mut ups = 1;
                while let Some(behind) = rest.strip_prefix("super::") {
                    (rest, ups) = (behind, ups + 1);
                }
                if ups == depth {
                    names.extend(first_names(rest));
                }
            }
            _ => {}
        }
    }
    names
}

/// Returns the first name of a path, or of each path in braces.
fn first_names(path: &str) -> Vec<String> {
    let Some(group) = path.strip_prefix('{') else {
        return vec![first_name(path).to_owned()];
    };
    let mut names = Vec::new();
    let (mut depth, mut is_first) = (0_u32, true);
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => is_first = true,
            letter if is_first && source::is_of_name(letter) => {
                names.push(first_name(&group[at..]).to_owned());
                is_first = false;
            }
            _ => {}
        }
    }
    names
}

fn first_name(path: &str) -> &str {
    let path = path.trim_start();
    let end = path.find(|letter| !source::is_of_name(letter));
    &path[..end.unwrap_or(path.len())]
}

/// Returns the strongly connected components with more than one module.
fn cycles(graph: &Graph) -> Vec<BTreeSet<String>> {
    let reached: Graph = graph
        .keys()
        .map(|module| (module.clone(), reachable(graph, module)))
        .collect();
    let cycle_of = |module: &String| -> BTreeSet<String> {
        let back = reached[module]
            .iter()
            .filter(|other| reached[*other].contains(module));
        back.cloned().collect()
    };
    let cycles: BTreeSet<BTreeSet<String>> = graph.keys().map(cycle_of).collect();
    cycles.into_iter().filter(|cycle| cycle.len() > 1).collect()
}

/// Returns the modules that a module uses, directly or through others.
fn reachable(graph: &Graph, module: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![module];
    while let Some(next) = open.pop() {
        for used in graph.get(next).into_iter().flatten() {
            if reached.insert(used.clone()) {
                open.push(used);
            }
        }
    }
    reached
}
