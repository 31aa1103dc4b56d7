//! Nodes and layouts through the admin API.

use std::sync::Arc;

use archipel_base::{Id, NodeId};
use futures_util::future::BoxFuture;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::super::types::{NodeInfo, NodeState, NodeStatus};
use super::super::{Admin, Node};
use super::{admin, ask, get};

const GIB: u64 = 1 << 30;

/// A node that knows others, and joins any node that listens on port 3901.
struct Members(Vec<NodeInfo>);

impl Node for Members {
    fn status(&self) -> BoxFuture<'_, NodeStatus> {
        Box::pin(async { NodeStatus::default() })
    }

    fn nodes(&self) -> Vec<NodeInfo> {
        self.0.clone()
    }

    fn join(&self, addresses: Vec<String>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            if addresses.iter().any(|address| address.ends_with(":3901")) {
                Ok(())
            } else {
                Err("nobody answers".into())
            }
        })
    }
}

fn member(id: NodeId, store: Id, state: NodeState) -> NodeInfo {
    NodeInfo {
        id: id.to_string(),
        short: id.short(),
        store: store.to_string(),
        state,
        ..NodeInfo::default()
    }
}

/// A cluster of one node that knows two more, whose ids begin with `abcdab01` and `abcdab02`.
async fn among_three() -> Admin {
    let admin = admin().await;
    let me = admin.model.cluster().me();
    let other = |last: u8| {
        let mut id = NodeId([last; 32]);
        id.0[..4].copy_from_slice(&[0xab, 0xcd, 0xab, last]);
        member(id, Id([last; 16]), NodeState::Alive)
    };
    let mut tells = other(2);
    (tells.zone, tells.capacity_bytes) = (Some("oslo".into()), Some(4 * GIB));
    let mut itself = member(me.node, me.store, NodeState::Itself);
    itself.short = "itself".into();
    let nodes = vec![itself, other(1), tells];
    Admin {
        node: Arc::new(Members(nodes)),
        ..admin
    }
}

#[tokio::test]
async fn nodes_are_admitted_and_dismissed() {
    let admin = among_three().await;
    let unknown = format!("/v1/nodes/{}/admission", "ab".repeat(32));
    for path in ["/v1/nodes/abcdab01/admission", &unknown] {
        for _ in 0..2 {
            let (status, _) = ask(&admin, Method::PUT, path, Value::Null).await;
            assert_eq!(status, StatusCode::NO_CONTENT);
        }
    }
    let (_, nodes) = get(&admin, "/v1/nodes").await;
    let nodes = nodes["items"].as_array().unwrap().clone();
    let admitted = nodes.iter().filter(|node| node["admitted"] == json!(true));
    assert_eq!((admitted.count(), nodes.len()), (2, 4));
    let (_, status) = get(&admin, "/v1/status").await;
    let advice = status["cluster"]["advice"][0].as_str().unwrap();
    assert!(advice.contains("without data: node abcdab02;"), "{advice}");
    for _ in 0..2 {
        let path = "/v1/nodes/abcdab01/admission";
        let (status, _) = ask(&admin, Method::DELETE, path, Value::Null).await;
        assert_eq!(status, StatusCode::NO_CONTENT);
    }
    let (_, node) = get(&admin, "/v1/nodes/abcdab01").await;
    assert_eq!(node["admitted"], json!(false));
    let me = "/v1/nodes/self/admission";
    let (status, refused) = ask(&admin, Method::DELETE, me, Value::Null).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert!(refused.to_string().contains("layout remove"), "{refused}");
    let nobody = "/v1/nodes/ffffffff/admission";
    let (status, _) = ask(&admin, Method::PUT, nobody, Value::Null).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

async fn stage(admin: &Admin, body: Value) -> (StatusCode, Value) {
    ask(admin, Method::POST, "/v1/layout/stage", body).await
}

#[tokio::test]
async fn nodes_are_listed_with_their_roles_in_the_layout() {
    let admin = among_three().await;
    let (status, nodes) = get(&admin, "/v1/nodes").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        (
            &nodes["items"][0]["state"],
            &nodes["items"][0]["zone"],
            &nodes["items"][0]["in_layout"]
        ),
        (&json!("self"), &json!("here"), &json!(true))
    );
    let oslo = nodes["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|n| n["zone"] == "oslo");
    assert_eq!(oslo.unwrap()["in_layout"], json!(false));
}

#[tokio::test]
async fn node_of_the_layout_that_was_never_seen_is_listed_as_gone() {
    let admin = among_three().await;
    let gateway = json!({"node": "abcdab01", "zone": "rome", "capacity_bytes": 0});
    stage(&admin, json!({"assign": [gateway]})).await;
    let apply = json!({"version": 2});
    let (status, _) = ask(&admin, Method::POST, "/v1/layout/apply", apply).await;
    assert_eq!(status, StatusCode::OK);
    let admin = Admin {
        node: Arc::new(Members(Vec::new())),
        ..admin
    };
    let (_, nodes) = get(&admin, "/v1/nodes").await;
    let states: Vec<&Value> = nodes["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| &n["state"])
        .collect();
    assert_eq!(
        states,
        ["self", "gone"],
        "the node that is asked is there by itself"
    );
    assert_eq!(nodes["items"][1]["in_layout"], json!(true));
    let (_, status) = get(&admin, "/v1/status").await;
    assert_eq!(status["cluster"]["state"], "degraded");
}

#[tokio::test]
async fn join_returns_the_known_nodes_or_the_reason_of_failure() {
    let admin = among_three().await;
    let join = async |addresses: Value| {
        let body = json!({"addresses": addresses});
        ask(&admin, Method::POST, "/v1/nodes/join", body).await
    };
    let (status, nodes) = join(json!(["b.example.net:3901"])).await;
    assert_eq!(
        (status, nodes["items"].as_array().unwrap().len()),
        (StatusCode::OK, 3)
    );
    let (status, error) = join(json!(["[2001:db8::7]:1"])).await;
    assert_eq!(
        (status, &error["code"]),
        (StatusCode::CONFLICT, &json!("CannotJoin"))
    );
    assert_eq!(error["detail"], "nobody answers");
    for wrong in [
        "b.example.net",
        "b.example.net:http",
        ":3901",
        "2001:db8::7:3901",
        "b:0",
    ] {
        let (status, error) = join(json!([wrong])).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{wrong}");
        let message = error["detail"].as_str().unwrap();
        assert!(
            message.contains(wrong) && message.contains("fix: "),
            "{message}"
        );
    }
    assert_eq!(join(json!([])).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn layout_shows_the_share_of_each_node() {
    let admin = among_three().await;
    let (status, layout) = get(&admin, "/v1/layout").await;
    assert_eq!((status, &layout["version"]), (StatusCode::OK, &json!(1)));
    assert_eq!(layout["redundancy"], json!({"replicas": 1}));
    let node = &layout["nodes"][0];
    assert_eq!(
        (&node["partitions"], &node["share"]),
        (&json!(1024), &json!(1.0))
    );
    assert_eq!(
        (&layout["staged"], &layout["progress"]),
        (&Value::Null, &Value::Null)
    );
}

#[tokio::test]
async fn changes_are_staged_explained_applied_once_and_remembered() {
    let admin = among_three().await;
    let change = json!({"assign": [{"node": "self", "zone": "paris", "capacity_bytes": 2 * GIB}]});
    let (status, layout) = stage(&admin, change).await;
    assert_eq!(
        (status, &layout["version"]),
        (StatusCode::OK, &json!(1)),
        "{layout}"
    );
    let staged = &layout["staged"];
    assert_eq!(
        (&staged["version"], &staged["refused"]),
        (&json!(2), &Value::Null),
        "{staged}"
    );
    assert_eq!(
        staged["nodes"][0]["role"],
        json!({"zone": "paris", "capacity_bytes": 2 * GIB})
    );
    assert_eq!(staged["result"][0]["zone"], "paris");
    let apply = async |version: u64| {
        let body = json!({"version": version});
        ask(&admin, Method::POST, "/v1/layout/apply", body).await
    };
    let (status, error) = apply(7).await;
    assert_eq!(
        (status, &error["code"]),
        (StatusCode::CONFLICT, &json!("Refused"))
    );
    assert!(
        error["detail"].as_str().unwrap().contains("fix: "),
        "{error}"
    );
    let (status, layout) = apply(2).await;
    assert_eq!(
        (status, &layout["version"]),
        (StatusCode::OK, &json!(2)),
        "{layout}"
    );
    assert_eq!(
        (&layout["staged"], &layout["nodes"][0]["zone"]),
        (&Value::Null, &json!("paris"))
    );
    // Nothing in this test moves data, so the change stays in progress.
    assert_eq!(layout["progress"]["to_version"], json!(2));
    let (_, history) = get(&admin, "/v1/layout/history").await;
    assert_eq!(
        history["items"].as_array().unwrap().last().unwrap()["versions"],
        json!([1, 2])
    );
    assert_eq!(apply(2).await.0, StatusCode::CONFLICT);
}

#[tokio::test]
async fn staged_changes_can_be_discarded() {
    let admin = among_three().await;
    stage(&admin, json!({"redundancy": {"replicas": 3, "zones": 2}})).await;
    let (_, layout) = get(&admin, "/v1/layout").await;
    assert_eq!(
        layout["staged"]["redundancy"],
        json!({"replicas": 3, "zones": 2})
    );
    // One node cannot hold three copies.
    assert!(layout["staged"]["refused"].is_string(), "{layout}");
    let (status, _) = ask(&admin, Method::DELETE, "/v1/layout/staged", Value::Null).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    let (_, layout) = get(&admin, "/v1/layout").await;
    assert_eq!(layout["staged"], Value::Null);
}

#[tokio::test]
async fn a_node_has_one_role_in_a_request() {
    let admin = among_three().await;
    let node =
        |name: &str, bytes: u64| json!({"node": name, "zone": "oslo", "capacity_bytes": bytes});
    let twice = json!({"assign": [node("abcdab02", GIB), node("ABCDAB02", 2 * GIB)]});
    let both = json!({"assign": [node("self", GIB)], "remove": ["self"]});
    for wrong in [twice, both] {
        let (status, refused) = stage(&admin, wrong).await;
        let told = refused["detail"].as_str().unwrap();
        assert_eq!(status, StatusCode::BAD_REQUEST, "{told}");
        assert!(
            told.contains("named twice; fix: name each node once"),
            "{told}"
        );
    }
    let (_, layout) = get(&admin, "/v1/layout").await;
    assert_eq!(layout["staged"], Value::Null);
}

#[tokio::test]
async fn omitted_values_come_from_the_former_role_or_the_node() {
    let admin = among_three().await;
    let (_, layout) = stage(&admin, json!({"assign": [{"node": "abcdab02"}]})).await;
    let role = &layout["staged"]["nodes"][0]["role"];
    assert_eq!(*role, json!({"zone": "oslo", "capacity_bytes": 4 * GIB}));
    let change = json!({"assign": [{"node": "abcdab02", "zone": "rome"}]});
    stage(&admin, change).await;
    let change = json!({"assign": [{"node": "ABCDAB02", "capacity_bytes": GIB}, {"node": "self", "zone": "x"}]});
    let (_, layout) = stage(&admin, change).await;
    let roles: Vec<&Value> = layout["staged"]["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| &n["role"])
        .collect();
    let capacity = &layout["nodes"][0]["capacity_bytes"];
    assert_eq!(
        roles,
        [
            &json!({"zone": "x", "capacity_bytes": capacity}),
            &json!({"zone": "rome", "capacity_bytes": GIB}),
        ]
    );
    let (status, error) = stage(
        &admin,
        json!({"assign": [{"node": "abcdab01", "capacity_bytes": 1}]}),
    )
    .await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(
        error["detail"].as_str().unwrap().contains("--zone"),
        "{error}"
    );
}

#[tokio::test]
async fn a_node_is_named_without_ambiguity_or_not_at_all() {
    let admin = among_three().await;
    for (name, expected, hint) in [
        ("abcdab", StatusCode::BAD_REQUEST, "more digits"),
        ("abc", StatusCode::BAD_REQUEST, "4 to 64"),
        ("self!", StatusCode::BAD_REQUEST, "4 to 64"),
        ("", StatusCode::BAD_REQUEST, "4 to 64"),
        ("ffff", StatusCode::NOT_FOUND, "node list"),
    ] {
        for change in [
            json!({"assign": [{"node": name, "zone": "z", "capacity_bytes": 1}]}),
            json!({"remove": [name]}),
        ] {
            let (status, error) = stage(&admin, change).await;
            let message = error["detail"].as_str().unwrap();
            assert_eq!(status, expected, "{name:?}: {message}");
            assert!(
                message.contains(hint) && message.contains(&format!("{name:?}")),
                "{message}"
            );
        }
    }
    assert_eq!(get(&admin, "/v1/layout").await.1["staged"], Value::Null);
}

#[tokio::test]
async fn only_nodes_of_the_layout_can_be_removed() {
    let admin = among_three().await;
    let (status, error) = stage(&admin, json!({"remove": ["abcdab01"]})).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(
        error["detail"]
            .as_str()
            .unwrap()
            .contains("nothing to remove"),
        "{error}"
    );
    stage(&admin, json!({"assign": [{"node": "abcdab02"}]})).await;
    let (status, layout) = stage(&admin, json!({"remove": ["abcdab02"]})).await;
    assert_eq!((status, &layout["staged"]), (StatusCode::OK, &Value::Null));
    let as_it_is = json!({"redundancy": {"replicas": 1}, "assign": [{"node": "self"}]});
    let (status, layout) = stage(&admin, as_it_is).await;
    assert_eq!((status, &layout["staged"]), (StatusCode::OK, &Value::Null));
    assert_eq!(stage(&admin, json!({})).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn status_includes_the_state_of_the_cluster() {
    let admin = among_three().await;
    let (_, status) = get(&admin, "/v1/status").await;
    let cluster = &status["cluster"];
    assert_eq!(
        (
            &cluster["state"],
            &cluster["nodes"],
            &cluster["zones"],
            &cluster["layout_version"]
        ),
        (&json!("healthy"), &json!(1), &json!(1), &json!(1))
    );
    let advice = cluster["advice"][0].as_str().unwrap();
    let idle = "without data: nodes abcdab01, abcdab02;";
    assert!(advice.contains(idle), "{advice}");
}
