//! Settings that documents name: each must be in the example configuration.

use std::collections::{BTreeMap, BTreeSet};

use super::docs;

/// The configuration with all settings.
const EXAMPLE: &str = "crates/archipel/src/config/example.toml";

/// Endings of file names, which look like keys of a section: `tls.rs`.
const ENDINGS: [&str; 8] = ["json", "md", "py", "rs", "sh", "sock", "toml", "yaml"];

/// The keys of each section.
type Sections<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Returns complaints about documents that name a key which its section does not have.
pub fn check(files: &BTreeMap<String, String>) -> Vec<String> {
    let Some(example) = files.get(EXAMPLE) else {
        return vec![format!("{EXAMPLE} is not there")];
    };
    let sections = sections(example);
    let documents = files.iter().filter(|(path, _)| docs::is_document(path));
    let complaints = documents.flat_map(|(path, text)| {
        let prose = docs::without_fences(text);
        let unknown = named(&prose).filter(|(section, key)| {
            let keys = sections.get(section);
            keys.is_some_and(|keys| !keys.contains(key))
        });
        let complaints = unknown.map(|(section, key)| {
            format!("{path} names the setting {section}.{key}, which {EXAMPLE} lacks")
        });
        complaints.collect::<Vec<_>>()
    });
    complaints.collect()
}

/// Reads the example, in which most settings and some sections are commented out.
fn sections(example: &str) -> Sections<'_> {
    let mut sections = Sections::new();
    let mut section = "";
    for line in example.lines() {
        let line = line.strip_prefix('#').unwrap_or(line);
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_matches(['[', ']']);
            sections.entry(section).or_default();
        } else if let Some((key, _)) = line.split_once(" = ").filter(|(key, _)| is_name(key)) {
            sections.entry(section).or_default().insert(key);
        }
    }
    sections
}

/// Returns what looks like a section and its key in back quotes, such as `log.level = "info"`.
fn named(prose: &str) -> impl Iterator<Item = (&str, &str)> {
    let quoted = prose.split('`').skip(1).step_by(2);
    quoted.filter_map(|text| {
        let (name, _) = text.split_once([' ', '\n']).unwrap_or((text, ""));
        let (section, key) = name.split_once('.')?;
        let is_key = is_name(section) && is_name(key) && !ENDINGS.contains(&key);
        is_key.then_some((section, key))
    })
}

fn is_name(text: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    !text.is_empty() && text.bytes().all(is_of_name)
}
