//! Settings from the environment: `ARCHIPEL_SECTION_KEY` overrides the file.

use serde::Deserialize;

use super::file::{File, SECTIONS};
use super::{Error, Problem};

/// Variables with the prefix that are no settings.
const NOT_SETTINGS: [&str; 4] = [
    "ARCHIPEL_CONFIG",
    "ARCHIPEL_ADMIN_URL",
    "ARCHIPEL_ADMIN_TOKEN",
    "ARCHIPEL_UNSAFE_NO_FSYNC",
];

/// Applies the settings among `variables` to `table`. Returns the names of variables that look like
/// settings but are none. They deserve a warning and no error, because container platforms set such
/// variables themselves (`ARCHIPEL_SERVICE_HOST`).
pub fn apply(
    table: &mut toml::Table,
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Vec<String>, Error> {
    let mut unknown = Vec::new();
    for (name, value) in variables {
        let Some(setting) = name.strip_prefix("ARCHIPEL_") else {
            continue;
        };
        if NOT_SETTINGS.contains(&name.as_str()) || value.is_empty() {
            continue;
        }
        match overridden(table, &setting.to_ascii_lowercase(), &value) {
            Ok(changed) => *table = changed,
            Err(why) if why.contains("unknown field") => unknown.push(name),
            Err(why) => return Err(wrong_type(name, value, &why)),
        }
    }
    Ok(unknown)
}

/// Returns `table` with one setting changed. The value is the text itself if the setting is a text,
/// and otherwise the text parsed as TOML.
fn overridden(table: &toml::Table, setting: &str, value: &str) -> Result<toml::Table, String> {
    let text = with(table, setting, toml::Value::String(value.to_owned()));
    match accepted(text) {
        Ok(changed) => Ok(changed),
        Err(why) => match format!("value = {value}").parse::<toml::Table>() {
            Ok(mut parsed) => {
                let parsed = parsed.remove("value").ok_or_else(|| why.clone())?;
                accepted(with(table, setting, parsed))
            }
            Err(_) => Err(why),
        },
    }
}

fn with(table: &toml::Table, setting: &str, value: toml::Value) -> toml::Table {
    let mut table = table.clone();
    let in_section = SECTIONS.iter().find_map(|section| {
        let key = setting.strip_prefix(section)?.strip_prefix('_')?;
        Some((*section, key))
    });
    match in_section {
        Some((section, key)) => {
            let entry = table
                .entry(section)
                .or_insert_with(|| toml::Table::new().into());
            if let Some(section) = entry.as_table_mut() {
                section.insert(key.to_owned(), value);
            }
        }
        None => {
            table.insert(setting.to_owned(), value);
        }
    }
    table
}

fn accepted(table: toml::Table) -> Result<toml::Table, String> {
    match File::deserialize(table.clone()) {
        Ok(_) => Ok(table),
        Err(error) => Err(error.message().to_owned()),
    }
}

fn wrong_type(name: String, value: String, why: &str) -> Error {
    Error::Problems(vec![Problem {
        key: name,
        value: Some(value),
        why: why.to_owned(),
        fix: "use a value of the same type as in the configuration file; lists and tables in TOML syntax".into(),
    }])
}
