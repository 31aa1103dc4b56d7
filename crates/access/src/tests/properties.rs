//! The evaluator says of every policy and request what the slow reference says.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::reference::{self, Asked, Said};
use super::user;
use crate::decision::Reason;
use crate::{Action, Context, Inputs, Policy, Principal, Request, decide};

pub fn one_of(texts: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(texts).prop_map(str::to_owned)
}

/// One text, or a list of some.
pub fn some(texts: &'static [&'static str]) -> impl Strategy<Value = Value> {
    prop_oneof![
        one_of(texts).prop_map(Value::from),
        prop::collection::vec(one_of(texts), 1..3).prop_map(Value::from),
    ]
}

fn principal() -> impl Strategy<Value = Value> {
    const NAMES: &[&str] = &[
        "*",
        "AK1",
        "AK2",
        "000000000000",
        "arn:aws:iam::000000000000:user/AK1",
        "arn:aws:iam::000000000000:root",
    ];
    prop_oneof![
        Just(json!("*")),
        some(NAMES).prop_map(|names| json!({ "AWS": names }))
    ]
}

pub fn condition() -> impl Strategy<Value = Value> {
    const STRINGS: &[&str] = &[
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
    let strings = || some(STRINGS);
    let prefix = one_of(&["", "ForAllValues:", "ForAnyValue:"]);
    let suffix = one_of(&["", "IfExists"]);
    let kinds = one_of(&[
        "StringEquals",
        "StringNotEquals",
        "StringEqualsIgnoreCase",
        "StringNotEqualsIgnoreCase",
        "StringLike",
        "StringNotLike",
    ]);
    let keys = || {
        one_of(&[
            "s3:prefix",
            "S3:Prefix",
            "aws:username",
            "s3:RequestObjectTagKeys",
        ])
    };
    prop_oneof![
        (prefix, kinds, suffix, keys(), strings())
            .prop_map(|(p, k, s, key, values)| json!({ format!("{p}{k}{s}"): { key: values } })),
        (
            one_of(&["NumericEquals", "NumericNotEquals", "NumericLessThan"]),
            some(&["5", "10"])
        )
            .prop_map(|(k, values)| json!({ k: { "s3:max-keys": values } })),
        (
            one_of(&["IpAddress", "NotIpAddress", "NotIpAddressIfExists"]),
            some(&["10.0.0.0/8", "10.1.0.0/16", "0.0.0.0/0", "192.0.2.7"])
        )
            .prop_map(|(k, values)| json!({ k: { "aws:SourceIp": values } })),
        (keys(), some(&["true", "false"])).prop_map(|(key, v)| json!({ "Null": { key: v } })),
    ]
}

pub fn statement() -> impl Strategy<Value = Value> {
    let actions = some(&["s3:GetObject", "s3:Get*", "s3:*", "*", "s3:PUTobject"]);
    let resources = some(&[
        "arn:aws:s3:::bucket/*",
        "arn:aws:s3:::bucket/home/${aws:username}/*",
        "arn:aws:s3:::bucket/home/*",
        "arn:aws:s3:::b*",
        "*",
    ]);
    let conditions = prop::option::of(condition());
    let nots = (any::<bool>(), any::<bool>(), any::<bool>());
    (
        any::<bool>(),
        principal(),
        actions,
        resources,
        conditions,
        nots,
    )
        .prop_map(
            |(allow, principal, actions, resources, condition, (not_p, not_a, not_r))| {
                let name =
                    |not: bool, name: &str| format!("{}{name}", if not { "Not" } else { "" });
                let mut statement = json!({
                    "Effect": if allow { "Allow" } else { "Deny" },
                    name(not_p && !allow, "Principal"): principal,
                    name(not_a, "Action"): actions,
                    name(not_r, "Resource"): resources,
                });
                if let Some(condition) = condition {
                    statement["Condition"] = condition;
                }
                statement
            },
        )
}

pub fn policy() -> impl Strategy<Value = Value> {
    let version = one_of(&["2012-10-17", "2008-10-17"]);
    let statements = prop::collection::vec(statement(), 1..5);
    (version, statements).prop_map(|(v, s)| json!({ "Version": v, "Statement": s }))
}

pub type Keys = Vec<(String, Vec<String>)>;

pub fn keys() -> impl Strategy<Value = Keys> {
    let prefix = prop::option::of(one_of(&["home/", "Home/", "AK1", "", "*", "home/x"]));
    let tags = prop::option::of(prop::collection::vec(one_of(&["home/", "a", "aa"]), 0..3));
    let most = prop::option::of(one_of(&["5", "7", "x"]));
    let address = prop::option::of(one_of(&["10.1.2.3", "192.0.2.7", "203.0.113.9"]));
    (prefix, tags, most, address).prop_map(|(prefix, tags, most, address)| {
        let mut keys: Keys = Vec::new();
        keys.extend(prefix.map(|value| ("s3:prefix".to_owned(), vec![value])));
        keys.extend(tags.map(|values| ("s3:requestobjecttagkeys".to_owned(), values)));
        keys.extend(most.map(|value| ("s3:max-keys".to_owned(), vec![value])));
        keys.extend(address.map(|value| ("aws:sourceip".to_owned(), vec![value])));
        keys
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn evaluation_agrees_with_the_reference(
        policy in policy(),
        who in prop::option::of(one_of(&["AK1", "AK2"])),
        action in prop::sample::select(vec![Action::GetObject, Action::PutObject]),
        key in one_of(&["home/AK1/x", "home/x", "x"]),
        keys in keys(),
    ) {
        let principal = who.as_deref().map_or(Principal::Anonymous, user);
        let mut context = Context::of(principal);
        for (name, values) in keys {
            context.set_all(&name, values);
        }
        let all: Keys = context.iter().map(|(n, v)| (n.to_owned(), v.to_vec())).collect();
        let asked = Asked {
            user: who.as_deref(),
            action: action.name(),
            resource: &format!("arn:aws:s3:::bucket/{key}"),
            keys: &all,
        };
        let expected = reference::evaluate(&policy, &asked);
        // A policy that is set is refused for more reasons than one that is stored.
        let parsed = Policy::stored(&policy.to_string());
        prop_assert_ne!(&parsed, &Policy::stored(""), "{}", policy);
        let request = Request {
            principal,
            action,
            bucket: "bucket",
            key: Some(&key),
            context: &context,
        };
        let inputs = Inputs { policy: Some(&parsed), ..Inputs::default() };
        let found = match decide(&request, &inputs).reason() {
            Reason::PolicyDenies(_) => Said::Denies,
            Reason::PolicyAllows(_) => Said::Allows,
            _ => Said::Nothing,
        };
        prop_assert_eq!(found, expected, "{} {:?}", policy, all);
    }

    /// No text makes the parser panic; what it accepts, it evaluates.
    #[test]
    fn any_text_is_a_policy_or_an_error(text in ".{0,200}", json in policy(), at in any::<prop::sample::Index>()) {
        let _ = Policy::parse(&text, "bucket");
        let mut damaged: Vec<char> = json.to_string().chars().collect();
        let at = at.index(damaged.len());
        damaged[at] = 'x';
        let damaged: String = damaged.into_iter().collect();
        if let Ok(policy) = Policy::parse(&damaged, "bucket") {
            let context = Context::of(user("AK1"));
            let request = Request {
                principal: user("AK1"),
                action: Action::GetObject,
                bucket: "bucket",
                key: Some("home/AK1/x"),
                context: &context,
            };
            let inputs = Inputs { policy: Some(&policy), ..Inputs::default() };
            let _ = decide(&request, &inputs);
        }
    }
}

/// Matches by a table: whether the first letters of the text match the first tokens of the pattern.
fn matches_by_table(pattern: &str, text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let mut row = vec![false; text.len() + 1];
    row[0] = true;
    for token in pattern.chars() {
        let before = row.clone();
        for at in 0..=text.len() {
            row[at] = match token {
                '*' => before[..=at].contains(&true),
                '?' => at > 0 && before[at - 1],
                letter => at > 0 && before[at - 1] && text[at - 1] == letter,
            };
        }
    }
    row[text.len()]
}

proptest! {
    #[test]
    fn patterns_match_as_a_table_says(
        pieces in prop::collection::vec("[abé?]{0,80}", 1..5),
        text in "[abé]{0,200}",
    ) {
        let pattern = pieces.join("*");
        let found = crate::pattern::matches(&crate::pattern::tokens(&pattern), &text);
        prop_assert_eq!(found, matches_by_table(&pattern, &text));
    }

    #[test]
    fn what_a_pattern_was_made_from_matches(
        text in "[abé]{1,200}",
        cuts in prop::collection::vec((0usize..200, any::<bool>()), 0..8),
    ) {
        let letters: Vec<char> = text.chars().collect();
        let mut pattern: Vec<char> = letters.clone();
        for (at, one) in cuts {
            let at = at % pattern.len();
            match one {
                true => pattern[at] = if pattern[at] == '*' { '*' } else { '?' },
                false => pattern[at] = '*',
            }
        }
        let pattern: String = pattern.into_iter().collect();
        let found = crate::pattern::matches(&crate::pattern::tokens(&pattern), &text);
        prop_assert!(found && matches_by_table(&pattern, &text), "{}", pattern);
    }
}
