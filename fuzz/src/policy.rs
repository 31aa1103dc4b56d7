//! Policies: the parser takes or refuses any text, and of what it takes the evaluator says what the slow
//! reference of the tests says.
use crate::Source;
use archipel_access::{Action, Context, Inputs, Policy, Principal, Reason, Request, decide};
use reference::{Asked, Said};
use serde_json::{Map, Value, json};

#[path = "../../crates/access/src/tests/reference.rs"]
mod reference;

const PRINCIPALS: [&str; 6] = [
    "*",
    "AK1",
    "AK2",
    "000000000000",
    "arn:aws:iam::000000000000:user/AK1",
    "arn:aws:iam::000000000000:root",
];
const ACTIONS: [&str; 6] = [
    "s3:GetObject",
    "s3:Get*",
    "s3:*",
    "*",
    "s3:PUTobject",
    "s3:?etObject",
];
const RESOURCES: [&str; 6] = [
    "arn:aws:s3:::bucket/*",
    "arn:aws:s3:::bucket/home/${aws:username}/*",
    "arn:aws:s3:::bucket/home/*",
    "arn:aws:s3:::b*",
    "*",
    "arn:aws:s3:::bucket/",
];
const STRINGS: [&str; 10] = [
    "home/",
    "HOME/",
    "home/*",
    "h?me/",
    "${aws:username}",
    "${aws:username}*",
    "${s3:delimiter, 'home/'}",
    "${*}",
    "a*",
    "",
];
const KEYS: [&str; 4] = [
    "s3:prefix",
    "S3:Prefix",
    "aws:username",
    "s3:RequestObjectTagKeys",
];
const COMPARISONS: [&str; 6] = [
    "StringEquals",
    "StringNotEquals",
    "StringEqualsIgnoreCase",
    "StringNotEqualsIgnoreCase",
    "StringLike",
    "StringNotLike",
];
const ADDRESSES: [&str; 5] = [
    "10.0.0.0/8",
    "10.1.0.0/16",
    "0.0.0.0/0",
    "192.0.2.7",
    "10.1.2.3/31",
];
const NUMBERS: [&str; 4] = ["5", "10", "-1", "7"];
/// The letters of invented texts: those that mean something, and some that do not.
const LETTERS: &[u8] = b"ab/*?A";

/// One text or several, of those given or invented.
fn texts(source: &mut Source<'_>, known: &[&str], prefix: Option<&str>) -> Value {
    let one = |source: &mut Source<'_>| -> Value {
        match prefix {
            Some(prefix) if source.byte() & 3 == 0 => {
                let letters = source.some(8).iter();
                let letters = letters.map(|b| char::from(LETTERS[usize::from(*b) % LETTERS.len()]));
                Value::String(prefix.chars().chain(letters).collect())
            }
            _ => Value::from(*source.pick(known)),
        }
    };
    match source.byte() % 3 {
        0 => json!([one(source), one(source)]),
        _ => one(source),
    }
}

fn condition(source: &mut Source<'_>) -> Value {
    let (key, operator, wanted) = match source.byte() % 8 {
        0 => {
            let operator = *source.pick(&["NumericEquals", "NumericNotEquals", "NumericLessThan"]);
            (
                "s3:max-keys",
                operator.to_owned(),
                texts(source, &NUMBERS, None),
            )
        }
        1 => {
            let operator = *source.pick(&["IpAddress", "NotIpAddress", "NotIpAddressIfExists"]);
            (
                "aws:SourceIp",
                operator.to_owned(),
                texts(source, &ADDRESSES, None),
            )
        }
        2 => (
            *source.pick(&KEYS),
            "Null".to_owned(),
            texts(source, &["true", "false"], None),
        ),
        _ => {
            let set = source.pick(&["", "ForAllValues:", "ForAnyValue:"]);
            let operator = source.pick(&COMPARISONS);
            let suffix = source.pick(&["", "IfExists"]);
            let operator = format!("{set}{operator}{suffix}");
            (
                *source.pick(&KEYS),
                operator,
                texts(source, &STRINGS, Some("")),
            )
        }
    };
    json!({ operator: { key: wanted } })
}

fn statement(source: &mut Source<'_>) -> Value {
    let (allow, shape) = (source.flag(), source.byte());
    let name = |not: bool, name: &str| format!("{}{name}", if not { "Not" } else { "" });
    let mut statement = Map::new();
    statement.insert("Effect".into(), json!(if allow { "Allow" } else { "Deny" }));
    let principal = match source.byte() % 3 {
        0 => json!("*"),
        _ => json!({ "AWS": texts(source, &PRINCIPALS, None) }),
    };
    statement.insert(name(shape & 1 == 1 && !allow, "Principal"), principal);
    statement.insert(
        name(shape & 2 == 2, "Action"),
        texts(source, &ACTIONS, None),
    );
    let resources = texts(source, &RESOURCES, Some("arn:aws:s3:::bucket/"));
    statement.insert(name(shape & 4 == 4, "Resource"), resources);
    if shape & 8 == 8 {
        statement.insert("Condition".into(), condition(source));
    }
    Value::Object(statement)
}

fn differential(mut source: Source<'_>) {
    let version = source.pick(&["2012-10-17", "2008-10-17"]);
    let count = source.byte() % 3 + 1;
    let statements: Vec<Value> = (0..count).map(|_| statement(&mut source)).collect();
    let text = json!({ "Version": version, "Statement": statements });
    // The parser refuses more than the reference does. It refuses least of a stored policy.
    let policy = Policy::stored(&text.to_string());
    if policy == Policy::stored("") {
        return;
    }
    let who = *source.pick(&[Some("AK1"), Some("AK2"), None]);
    let principal = who.map_or(Principal::Anonymous, Principal::of_key);
    let mut context = Context::of(principal);
    let mut set = |source: &mut Source<'_>, key: &str, values: &[&str], most: u8| {
        let count = source.byte() % (most + 1);
        if count > 0 {
            let values: Vec<String> = (0..count)
                .map(|_| (*source.pick(values)).to_owned())
                .collect();
            context.set_all(key, values);
        }
    };
    set(
        &mut source,
        "s3:prefix",
        &["home/", "Home/", "AK1", "", "*", "home/x", "ab/", "a"],
        1,
    );
    set(
        &mut source,
        "s3:RequestObjectTagKeys",
        &["home/", "a", "aa", "b*"],
        3,
    );
    set(&mut source, "s3:max-keys", &["5", "7", "x", "-1"], 1);
    set(
        &mut source,
        "aws:SourceIp",
        &["10.1.2.3", "192.0.2.7", "203.0.113.9"],
        1,
    );
    let action = *source.pick(&[Action::GetObject, Action::PutObject]);
    let key = *source.pick(&["home/AK1/x", "home/x", "x", "ab", "a/*?", "A"]);

    let all: Vec<(String, Vec<String>)> = context
        .iter()
        .map(|(name, values)| (name.to_owned(), values.to_vec()))
        .collect();
    let asked = Asked {
        user: who,
        action: action.name(),
        resource: &format!("arn:aws:s3:::bucket/{key}"),
        keys: &all,
    };
    let expected = reference::evaluate(&text, &asked);
    let request = Request {
        principal,
        action,
        bucket: "bucket",
        key: Some(key),
        context: &context,
    };
    let inputs = Inputs {
        policy: Some(&policy),
        ..Inputs::default()
    };
    let found = match decide(&request, &inputs).reason() {
        Reason::PolicyDenies(_) => Said::Denies,
        Reason::PolicyAllows(_) => Said::Allows,
        _ => Said::Nothing,
    };
    assert_eq!(
        found,
        expected,
        "{text} {who:?} {} {key} {all:?}",
        action.name()
    );
}

fn any_text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let _ = Policy::parse_trust(text);
    let policies = [Policy::parse(text, "bucket"), Policy::parse_identity(text)];
    for policy in policies.into_iter().flatten() {
        let context = Context::of(Principal::of_key("AK1"));
        for key in [None, Some("home/AK1/x")] {
            let request = Request {
                principal: Principal::of_key("AK1"),
                action: if key.is_some() {
                    Action::GetObject
                } else {
                    Action::ListBucket
                },
                bucket: "bucket",
                key,
                context: &context,
            };
            let inputs = Inputs {
                policy: Some(&policy),
                ..Inputs::default()
            };
            let _ = decide(&request, &inputs);
        }
    }
}

/// Runs one input.
pub fn run(bytes: &[u8]) {
    match bytes.split_first() {
        // A text begins with a bracket; all else makes a policy.
        Some((b'{', _)) => any_text(bytes),
        _ => differential(Source::new(bytes)),
    }
}
