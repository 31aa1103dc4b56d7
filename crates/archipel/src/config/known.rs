//! The names of all keys: those of the example, which shows every setting.

use std::sync::LazyLock;

use super::EXAMPLE;

/// A section, a list or a key.
struct Known {
    /// Its path, such as `s3.listen` or `disks.path`.
    path: String,
    /// True if it holds several values: it is a section or a list.
    holds_several: bool,
}

/// All sections, lists and keys.
static KNOWN: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let mut known = Vec::new();
    // A test shows that it is valid.
    let settings: toml::Table = all_settings().parse().unwrap_or_default();
    collect(&settings, "", &mut known);
    known
});

/// The most changes of letters with which a name is still like another.
const MOST_CHANGES: usize = 3;

/// Returns the example with every commented setting made active.
pub fn all_settings() -> String {
    let active = |line: &str| match line.strip_prefix('#') {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => {
            rest.to_owned()
        }
        _ => line.to_owned(),
    };
    EXAMPLE.lines().map(|line| active(line) + "\n").collect()
}

fn collect(table: &toml::Table, before: &str, known: &mut Vec<Known>) {
    for (name, value) in table {
        let path = format!("{before}{name}");
        let within = format!("{path}.");
        known.push(Known {
            path,
            holds_several: value.is_table() || value.is_array(),
        });
        match value {
            toml::Value::Table(inner) => collect(inner, &within, known),
            toml::Value::Array(items) => {
                let tables = items.iter().filter_map(toml::Value::as_table);
                tables.for_each(|inner| collect(inner, &within, known));
            }
            _ => {}
        }
    }
}

/// Returns true if there is a section, a list or a key with this path.
pub fn is_known(path: &str) -> bool {
    KNOWN.iter().any(|known| known.path == path)
}

/// Returns true if the setting with this path is a section or a list.
pub fn holds_several(path: &str) -> bool {
    let mut known = KNOWN.iter();
    known.any(|known| known.path == path && known.holds_several)
}

/// Returns the known path that is nearest to an unknown one, if its last name is like that one's.
/// The section counts less, because keys are also written into the wrong section.
pub fn nearest(path: &str) -> Option<&'static str> {
    let (section, name) = split(path);
    let changes = |known: &str| {
        let (its_section, its_name) = split(known);
        (
            strsim::osa_distance(name, its_name),
            strsim::osa_distance(section, its_section),
        )
    };
    let paths = KNOWN.iter().map(|known| known.path.as_str());
    let known = paths.min_by_key(|known| changes(known))?;
    let most = (name.chars().count() / 3).clamp(1, MOST_CHANGES);
    (changes(known).0 <= most).then_some(known)
}

/// Splits a path into the section and the last name.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('.').unwrap_or(("", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_lists_and_keys_are_known() {
        for path in [
            "data_dir",
            "s3",
            "s3.listen",
            "disks",
            "disks.path",
            "tls.certificates.chain",
            "event_targets.when_full",
        ] {
            assert!(is_known(path), "{path}");
        }
        for path in ["", "listen", "s3.listn", "s3.listen.x"] {
            assert!(!is_known(path), "{path}");
        }
    }

    #[test]
    fn sections_and_lists_hold_several_values() {
        for path in ["s3", "disks", "tls.certificates", "cluster.join"] {
            assert!(holds_several(path), "{path}");
        }
        for path in ["data_dir", "disks.path", "limits.connections", "unknown"] {
            assert!(!holds_several(path), "{path}");
        }
    }

    #[test]
    fn nearest_path_has_a_name_like_the_unknown_one() {
        for (unknown, known) in [
            ("data_dri", "data_dir"),
            ("cluter", "cluster"),
            ("s3.listn", "s3.listen"),
            ("web.listn", "web.listen"),
            ("disks.capcity", "disks.capacity"),
            // It is in the wrong section.
            ("region", "s3.region"),
            ("s3.scrub_days", "limits.scrub_days"),
        ] {
            assert_eq!(nearest(unknown), Some(known), "{unknown}");
        }
        assert_eq!(nearest("replication_factor"), None);
    }
}
