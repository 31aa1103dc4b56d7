//! Tests of the settings about finding nodes and about the first start.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{Discovery, Error, Loaded, Settings, parse};

/// Reads settings of a node with a secret and these lines below `[cluster]`.
fn with(cluster: &str, variables: &[(&str, &str)]) -> Result<Loaded, Error> {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    fs::write(&secret, "0123456789abcdef0123456789abcdef\n").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let text = format!(
        "data_dir = \"/d\"\n[cluster]\nlisten = \"127.0.0.1:3901\"\nsecret_file = {secret:?}\n{cluster}\n"
    );
    let variables = variables
        .iter()
        .map(|(n, v)| (n.to_string(), v.to_string()));
    parse(&text, Path::new("test.toml"), variables)
}

fn settings(cluster: &str, variables: &[(&str, &str)]) -> Settings {
    with(cluster, variables).unwrap().settings
}

fn refusal(cluster: &str, variables: &[(&str, &str)]) -> String {
    let refused = with(cluster, variables);
    refused.expect_err("it should be refused").to_string()
}

#[test]
fn a_node_founds_alone_only_if_nothing_tells_of_others() {
    assert!(settings("", &[]).cluster.founds_alone());
    assert!(settings("first_nodes = 1", &[]).cluster.founds_alone());
    for others in [
        "join = [\"a:1\"]",
        "discover = [\"dns://a:1\"]",
        "first_nodes = 3\njoin = [\"a:1\"]",
    ] {
        assert!(!settings(others, &[]).cluster.founds_alone(), "{others}");
    }
}

#[test]
fn first_layouts_that_would_make_two_clusters_are_refused() {
    let why = refusal("first_nodes = 1\njoin = [\"a:1\"]", &[]);
    assert!(
        why.contains("each node would found a cluster of its own"),
        "{why}"
    );
    assert!(refusal("first_nodes = 0", &[]).contains("from 1 to 1000"));
    assert!(refusal("first_replicas = 2", &[]).contains("a number from 1 to 1"));
    let why = refusal("first_nodes = 3\nfirst_replicas = 4", &[]);
    assert!(why.contains("a number from 1 to 3"), "{why}");
    let why = refusal("first_nodes = 3", &[]);
    assert!(
        why.contains("cluster.first_nodes") && why.contains("cluster.join"),
        "{why}"
    );
    let others = "join = [\"a:1\"]";
    let set = settings(
        &format!("first_nodes = 5\nfirst_replicas = 3\n{others}"),
        &[],
    );
    let network = set.cluster.network.unwrap();
    assert_eq!(
        (network.first_nodes, network.first_replicas),
        (Some(5), Some(3))
    );
}

#[test]
fn addresses_that_no_other_node_can_dial_are_refused() {
    for address in [
        "0.0.0.0:3901",
        "[::]:3901",
        "[::ffff:0.0.0.0]:3901",
        "0:3901",
        "*:3901",
    ] {
        let why = refusal(&format!("advertise = [\"b:1\", {address:?}]"), &[]);
        let told = format!("cluster.advertise = {address:?}: it stands for all interfaces");
        assert!(why.contains(&told), "{why}");
        assert!(why.contains("fix: name the addresses at which"), "{why}");
    }
    settings(
        "advertise = [\"127.0.0.1:3901\", \"[2001:db8::7]:3901\"]",
        &[],
    );
}

#[test]
fn settings_about_others_need_an_address_for_them() {
    for (key, line) in [
        ("advertise", "advertise = [\"a:1\"]"),
        ("discover", "discover = [\"dns://a:1\"]"),
        ("first_nodes", "first_nodes = 3"),
    ] {
        let text = format!("data_dir = \"/d\"\n[cluster]\n{line}\n");
        let refused = parse(&text, Path::new("test.toml"), std::iter::empty());
        let why = refused.unwrap_err().to_string();
        assert!(
            why.contains(&format!("cluster.{key} needs cluster.listen")),
            "{why}"
        );
    }
}

#[test]
fn sources_of_nodes_are_read() {
    let sources = [
        "dns://nodes.example.org:3901",
        "srv://_archipel._udp.example.org",
        "consul://127.0.0.1:8500/archipel",
        "consul+https://consul.example.org:8501/archipel",
        "kubernetes://storage/archipel:3901",
    ];
    let lines = format!("discover = {sources:?}");
    let network = settings(&lines, &[]).cluster.network.unwrap();
    let shown: Vec<String> = network.discover.iter().map(Discovery::to_string).collect();
    assert_eq!(shown, sources);
    let elsewhere = "kubernetes://storage/archipel:3901?server=https://10.0.0.1:6443&account=/a";
    match Discovery::parse(elsewhere, None) {
        Ok(Discovery::Kubernetes(service)) => {
            assert_eq!(service.server, "https://10.0.0.1:6443");
            assert_eq!(service.account, Path::new("/a"));
        }
        other => panic!("{other:?}"),
    }
    let tcp = Discovery::parse("srv://_archipel._tcp.example.org", None);
    assert!(matches!(tcp, Ok(Discovery::Srv { tcp: true, .. })));
}

#[test]
fn wrong_sources_of_nodes_are_refused_with_the_forms() {
    for (source, why) in [
        ("nodes.example.org", "not a source of nodes"),
        ("mdns://a:1", "an unknown kind of source"),
        ("dns://a", "the port is missing"),
        ("dns://a:0", "the port is none"),
        ("dns://:1", "the host is none"),
        ("srv://archipel.example.org", "not the name of SRV records"),
        ("consul://127.0.0.1:8500", "the service is missing"),
        (
            "consul://127.0.0.1:8500/a/b",
            "characters that it must not have",
        ),
        ("kubernetes://archipel:3901", "the service is missing"),
        (
            "kubernetes://ns/a:1?ca=x",
            "only server=URL and account=FOLDER",
        ),
        ("kubernetes://ns/a:1?server=ftp://x", "server is not a URL"),
    ] {
        let text = refusal(&format!("discover = [{source:?}]"), &[]);
        assert!(
            text.contains(why) && text.contains("fix: write \"dns://"),
            "{source}: {text}"
        );
    }
}

#[test]
fn the_first_key_needs_an_id_and_one_secret() {
    let secret = ("ARCHIPEL_FIRST_START_SECRET_KEY", "a-secret-of-some-length");
    let id = ("ARCHIPEL_FIRST_START_ACCESS_KEY", "AKfirst");
    let bucket = ("ARCHIPEL_FIRST_START_BUCKET", "photos");
    let loaded = with("", &[secret, id, bucket]).unwrap();
    assert!(loaded.unknown_variables.is_empty());
    let first = loaded.settings.first_start;
    let key = first.key.unwrap();
    assert_eq!(first.bucket.as_deref(), Some("photos"));
    assert_eq!(
        (key.id.as_str(), key.secret.expose()),
        ("AKfirst", secret.1)
    );
    assert!(!format!("{:?}", key.secret).contains("a-secret"));

    assert!(refusal("", &[id]).contains("set first_start.secret_key_file, or ARCHIPEL_FIRST"));
    assert!(refusal("", &[secret]).contains("there is a secret, but no id"));
    let short = ("ARCHIPEL_FIRST_START_SECRET_KEY", "short");
    assert!(refusal("", &[id, short]).contains("8 to 256 printable"));
    let wrong = ("ARCHIPEL_FIRST_START_BUCKET", "No");
    assert!(refusal("", &[wrong]).contains("first_start.bucket"));
    let reserved = ("ARCHIPEL_FIRST_START_BUCKET", "health");
    assert!(refusal("", &[reserved]).contains("reserved for health checks"));
}
