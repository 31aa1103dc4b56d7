//! The metadata engines: one conformance suite for all, a model test for all, and what is each
//! engine's own.

// Tests here are functions that a macro runs on each engine, which clippy does not know as tests.
#![allow(clippy::unwrap_used)]

mod concurrency;
mod conformance;
mod files;
mod full;
mod lmdb;
mod memory;
mod model;
mod place;
mod speed;

use archipel_storage::engine::EngineKind;

use place::Place;

/// Makes each of the functions a test for each of the engines.
macro_rules! for_all_engines {
    ($($module:ident: $($test:ident),+;)+) => {
        for_all_engines!(@engine in_memory, Place::in_memory(), $($module: $($test),+;)+);
        for_all_engines!(@engine lmdb_engine, Place::new(EngineKind::Lmdb), $($module: $($test),+;)+);
        for_all_engines!(@engine sqlite_engine, Place::new(EngineKind::Sqlite), $($module: $($test),+;)+);
        for_all_engines!(@engine fjall_engine, Place::new(EngineKind::Fjall), $($module: $($test),+;)+);
    };
    (@engine $engine:ident, $place:expr, $($module:ident: $($test:ident),+;)+) => {
        mod $engine {
            use super::*;
            $($(
                #[test]
                fn $test() {
                    $module::$test(&$place);
                }
            )+)+
        }
    };
}

for_all_engines! {
    conformance:
        what_is_put_is_there,
        transactions_see_their_own_changes,
        dropped_transactions_leave_nothing,
        readers_keep_their_view,
        all_kinds_of_bounds,
        visitors_stop_and_fail,
        visitors_may_read,
        impossible_keys,
        long_keys,
        large_values,
        trees_are_apart,
        many_entries,
        all_durabilities,
        reopening,
        snapshots;
    concurrency:
        writers_do_not_lose_one_anothers_changes,
        a_panic_undoes_its_transaction,
        no_reader_sees_less_than_another_did,
        readers_while_writing,
        many_readers_at_once;
    files:
        a_folder_remembers_its_kind,
        a_later_format_is_refused_with_the_way_out,
        a_damaged_or_missing_marker_is_no_new_folder,
        opening_twice_is_refused,
        an_incomplete_copy_is_not_taken_for_an_engine,
        there_and_back_through_every_other,
        a_conversion_that_cannot_be_leaves_all_as_it_was,
        a_conversion_that_fails_leaves_no_remains,
        a_first_start_that_was_cut_short_is_repeated,
        a_snapshot_takes_the_place_of_what_is_there;
    model: behaves_like_a_map;
}
