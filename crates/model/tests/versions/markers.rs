//! Prefixes and markers of listings that no key can have.

use super::*;

/// The rows of kept versions hold the key, NUL and the name of the version.
#[tokio::test]
async fn nul_in_a_prefix_or_a_marker_is_in_no_key() {
    let mut system = System::new(1).await;
    let model = system.models[0].clone();
    let enabled = model.set_versioning(&system.bucket, Versioning::Enabled);
    let bucket = enabled.await.unwrap();
    let mut ids = Vec::new();
    for key in KEYS {
        for tag in ["old", "new"] {
            let put = system.put(key, tag, Condition::Always).await;
            ids.push(put.unwrap().id);
        }
    }
    let listed = async |query: VersionQuery| -> Vec<String> {
        let limit = 100;
        let query = VersionQuery { limit, ..query };
        let page = model.list_versions(&bucket, &query).await.unwrap();
        let names = page.entries.iter().map(|entry| entry.name().to_owned());
        names.collect()
    };
    for delimiter in [None, Some("/".to_owned())] {
        let prefixed = VersionQuery {
            prefix: "a\0".into(),
            delimiter,
            ..VersionQuery::default()
        };
        assert_eq!(listed(prefixed).await, Vec::<String>::new());
    }
    for after_version in [None, Some(ids[1]), Some(VersionId::Null)] {
        let behind = VersionQuery {
            after_key: Some("a\0".into()),
            after_version,
            ..VersionQuery::default()
        };
        assert_eq!(listed(behind).await, ["a/b", "a/b", "b", "b"]);
    }
}
