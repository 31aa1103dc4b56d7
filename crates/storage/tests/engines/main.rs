//! Tests of the metadata engines: one conformance suite and one model test for all, and tests of
//! each engine.

// A macro runs these functions on each engine, so clippy does not know them as tests.
#![allow(clippy::unwrap_used)]

mod concurrency;
mod conformance;
mod files;
mod fixture;
mod full;
mod interrupted;
mod lmdb;
mod memory;
mod model;
mod restarts;
mod snapshots;
mod speed;

use archipel_storage::engine::EngineKind;

use fixture::Fixture;

/// Makes each function a test of each engine.
macro_rules! for_all_engines {
    ($($module:ident: $($test:ident),+;)+) => {
        for_all_engines!(@engine in_memory, Fixture::in_memory(), $($module: $($test),+;)+);
        for_all_engines!(@engine lmdb_engine, Fixture::new(EngineKind::Lmdb), $($module: $($test),+;)+);
        for_all_engines!(@engine sqlite_engine, Fixture::new(EngineKind::Sqlite), $($module: $($test),+;)+);
        for_all_engines!(@engine fjall_engine, Fixture::new(EngineKind::Fjall), $($module: $($test),+;)+);
    };
    (@engine $engine:ident, $fixture:expr, $($module:ident: $($test:ident),+;)+) => {
        mod $engine {
            use super::*;
            $($(
                #[test]
                fn $test() {
                    $module::$test(&$fixture);
                }
            )+)+
        }
    };
}

for_all_engines! {
    conformance:
        put_values_are_read_back,
        transactions_see_their_own_changes,
        dropped_transactions_leave_nothing,
        readers_keep_their_view_while_others_write,
        scans_respect_all_kinds_of_bounds,
        visitors_can_stop_and_fail_a_scan,
        visitors_may_read_the_same_transaction,
        impossible_keys_are_refused,
        keys_of_the_maximum_length_work,
        large_values_are_read_back,
        trees_are_independent,
        scans_return_many_entries_in_order,
        every_durability_makes_commits_visible,
        entries_survive_reopening,
        a_snapshot_is_an_engine_of_its_own;
    concurrency:
        concurrent_writers_lose_no_changes,
        a_panic_undoes_its_transaction,
        no_reader_sees_less_than_an_earlier_one,
        readers_are_consistent_while_a_writer_commits,
        many_readers_are_open_at_once;
    files:
        a_folder_remembers_its_kind,
        a_later_format_is_refused_with_advice,
        a_folder_with_a_damaged_or_missing_marker_is_refused,
        opening_twice_is_refused,
        an_incomplete_copy_is_not_opened,
        conversion_to_every_other_engine_and_back_keeps_all_entries,
        a_refused_conversion_changes_nothing,
        a_failed_conversion_leaves_no_remains,
        an_interrupted_first_start_is_repeated,
        restoring_a_snapshot_replaces_the_folder;
    snapshots:
        a_failed_copy_leaves_nothing,
        a_copy_that_is_being_made_stays,
        an_interrupted_restore_can_be_repeated,
        the_next_start_finishes_an_interrupted_restore,
        a_restore_that_fails_in_its_last_step_leaves_nothing,
        remains_of_snapshots_and_restores_are_removed;
    interrupted:
        an_opening_finishes_an_interrupted_restore,
        an_interrupted_restore_can_be_repeated_over_an_empty_folder,
        an_incomplete_snapshot_is_not_restored,
        a_restore_that_cannot_move_the_folder_leaves_no_copy,
        a_restore_that_fails_keeps_the_copy_of_an_interrupted_one;
    model: random_transactions_match_a_map;
}
