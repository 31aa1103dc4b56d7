//! The check of the settings of metadata.

use archipel_storage::engine::EngineKind;

use super::Check;

/// The bounds of the map. A smaller one fills up at once; processors address little more than the
/// larger one.
const LEAST_MAP_BYTES: u64 = 64 << 20;
const MOST_MAP_BYTES: u64 = 64 << 40;

const KEY: &str = "metadata_map_size";

impl Check {
    /// Returns the size of LMDB's map, if it is configured.
    pub(super) fn map_size(
        &mut self,
        value: Option<&toml::Value>,
        engine: EngineKind,
    ) -> Option<u64> {
        let value = value?;
        let shown = match value {
            toml::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        if engine != EngineKind::Lmdb {
            let why = format!("the engine {engine} has no map");
            self.problem(KEY, Some(shown), &why, "remove the setting");
            return None;
        }
        let bytes = self.size(KEY, value).filter(|bytes| *bytes > 0)?;
        if !(LEAST_MAP_BYTES..=MOST_MAP_BYTES).contains(&bytes) {
            let why = "the map is too small for any data, or too large to be addressed";
            let fix = "from \"64MiB\" to \"64TiB\", or remove the setting for 1 TiB and more";
            self.problem(KEY, Some(shown), why, fix);
        }
        Some(bytes)
    }
}
