//! The names of the trees, in files and in the documentation.

use std::path::Path;

use super::Tree;

/// Returns the trees that the table of `docs/internals/data-format.md` names, in its order.
fn documented() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/internals/data-format.md");
    let page = std::fs::read_to_string(path).unwrap();
    let rows = page
        .lines()
        .skip_while(|line| !line.starts_with("| tree |"));
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    // A row without a name goes on with the tree of the row above.
    let names = rows.filter_map(|row| row.strip_prefix("| `")?.split_once('`'));
    names.map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn the_page_of_the_data_format_names_all_trees_as_files_do() {
    assert_eq!(documented(), Tree::ALL.map(Tree::name));
}
