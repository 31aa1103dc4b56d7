//! Settings from the environment: `ARCHIPEL_SECTION_KEY` overrides the file.

use serde::Deserialize;

use super::file::{File, SECTIONS};
use super::problem::without_text;
use super::written::Written;
use super::{Problem, known};

/// Variables with the prefix that are no settings.
const NOT_SETTINGS: [&str; 4] = [
    "ARCHIPEL_CONFIG",
    "ARCHIPEL_ADMIN_URL",
    "ARCHIPEL_ADMIN_TOKEN",
    "ARCHIPEL_UNSAFE_NO_FSYNC",
];

/// Applies the settings among `variables` to the file's. Returns the names of variables that look
/// like settings but are none. They deserve a warning and no error, because container platforms set
/// such variables themselves (`ARCHIPEL_SERVICE_HOST`).
pub fn apply(
    written: &mut Written,
    variables: impl Iterator<Item = (String, String)>,
) -> Vec<String> {
    let mut unknown = Vec::new();
    for (name, value) in variables {
        let Some(setting) = name.strip_prefix("ARCHIPEL_") else {
            continue;
        };
        if NOT_SETTINGS.contains(&name.as_str()) || value.is_empty() {
            continue;
        }
        let path = path(&setting.to_ascii_lowercase());
        // Only paths have points, and names of variables have none.
        if setting.contains('.') || !known::is_known(&path) {
            unknown.push(name);
            continue;
        }
        match overridden(&written.table, &path, &value) {
            Ok(changed) => written.table = changed,
            Err(why) => {
                // A list or a table may hold the password of an address.
                let shown = (!known::holds_several(&path)).then_some(value);
                written.refuse(&path, wrong_value(name, shown, why));
            }
        }
    }
    unknown
}

/// Returns the path of a setting from the name of its variable: `s3_listen` is `s3.listen`.
fn path(setting: &str) -> String {
    let in_section = SECTIONS.iter().find_map(|section| {
        let key = setting.strip_prefix(section)?.strip_prefix('_')?;
        Some(format!("{section}.{key}"))
    });
    in_section.unwrap_or_else(|| setting.to_owned())
}

/// Returns `table` with one setting changed. The value is the text itself if the setting is a text,
/// and otherwise the text parsed as TOML.
fn overridden(table: &toml::Table, path: &str, value: &str) -> Result<toml::Table, String> {
    let text = with(table, path, toml::Value::String(value.to_owned()));
    match accepted(text) {
        Ok(changed) => Ok(changed),
        Err(why) => match format!("value = {value}").parse::<toml::Table>() {
            Ok(mut parsed) => {
                let parsed = parsed.remove("value").ok_or_else(|| why.clone())?;
                accepted(with(table, path, parsed))
            }
            Err(_) if known::holds_several(path) => Err("it is not TOML".into()),
            Err(_) => Err(why),
        },
    }
}

fn with(table: &toml::Table, path: &str, value: toml::Value) -> toml::Table {
    let mut table = table.clone();
    match path.split_once('.') {
        Some((section, key)) => {
            let entry = table
                .entry(section)
                .or_insert_with(|| toml::Table::new().into());
            if let Some(section) = entry.as_table_mut() {
                section.insert(key.to_owned(), value);
            }
        }
        None => {
            table.insert(path.to_owned(), value);
        }
    }
    table
}

fn accepted(table: toml::Table) -> Result<toml::Table, String> {
    match File::deserialize(table.clone()) {
        Ok(_) => Ok(table),
        Err(error) => Err(without_text(error.message())),
    }
}

fn wrong_value(name: String, value: Option<String>, why: String) -> Problem {
    Problem {
        key: name,
        value,
        line: None,
        why,
        fix: "use a value of the same type as in the configuration file; lists and tables in TOML syntax".into(),
    }
}
