//! Documents that name a setting which is not there are found.

use super::files;
use crate::tidy::settings::check;

const NONE: [&str; 0] = [];

const EXAMPLE: (&str, &str) = (
    "crates/archipel/src/config/example.toml",
    "# The folder.\ndata_dir = \"/d\"\n\n[log]\n# \"text\" or \"json\": level = none.\n#format = \"text\"\n\n\
     #[[disks]]\n#path = \"/mnt\"\n",
);

fn found(text: &str) -> Vec<String> {
    check(&files(&[EXAMPLE, ("docs/a.md", text)]))
}

#[test]
fn settings_that_exist_give_no_complaint() {
    assert_eq!(
        found("`log.format`, `log.format = \"json\"`, `disks.path`\n"),
        NONE
    );
}

#[test]
fn a_key_that_its_section_lacks_is_found() {
    let expected = [
        "docs/a.md names the setting log.level, which crates/archipel/src/config/example.toml lacks",
        "docs/a.md names the setting disks.data_dir, which crates/archipel/src/config/example.toml lacks",
    ];
    assert_eq!(found("`log.level = 3` and\n`disks.data_dir`\n"), expected);
}

#[test]
fn files_hosts_calls_and_other_sections_are_no_settings() {
    let text = "`log.rs` `log.example.org` `log.write()` `cluster.state` log.level\n```\n`log.level`\n```\n";
    assert_eq!(found(text), NONE);
    let source = ("crates/model/src/lib.rs", "//! `log.level`\n");
    assert_eq!(check(&files(&[EXAMPLE, source])), NONE);
}

#[test]
fn a_missing_example_is_found() {
    assert_eq!(check(&files(&[])).len(), 1);
}
