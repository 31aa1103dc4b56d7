//! A slow evaluator, written from AWS's text: it walks the JSON itself, matches wildcards by
//! recursion, and shares no code with the product.

use serde_json::Value;

/// A request, as the reference sees it.
pub struct Asked<'a> {
    /// The user's name; `None` for an anonymous client.
    pub user: Option<&'a str>,
    pub action: &'a str,
    pub resource: &'a str,
    /// Condition keys in lower case.
    pub keys: &'a [(String, Vec<String>)],
}

/// The verdict of a policy on a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Said {
    Denies,
    Allows,
    Nothing,
}

/// Evaluates a policy.
pub fn evaluate(policy: &Value, asked: &Asked<'_>) -> Said {
    let variables = policy["Version"] == "2012-10-17";
    let statements = list(&policy["Statement"]);
    let matching: Vec<&Value> = statements
        .into_iter()
        .filter(|statement| matches(statement, asked, variables))
        .collect();
    if matching
        .iter()
        .any(|statement| statement["Effect"] == "Deny")
    {
        Said::Denies
    } else if matching
        .iter()
        .any(|statement| statement["Effect"] == "Allow")
    {
        Said::Allows
    } else {
        Said::Nothing
    }
}

fn list(value: &Value) -> Vec<&Value> {
    match value {
        Value::Null => Vec::new(),
        Value::Array(all) => all.iter().collect(),
        single => vec![single],
    }
}

fn texts(value: &Value) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    list(value).into_iter().map(text).collect()
}

fn matches(statement: &Value, asked: &Asked<'_>, variables: bool) -> bool {
    let principal = match statement.get("NotPrincipal") {
        Some(not) => !names(not, asked, false),
        // The policy of an identity names no principal.
        None if statement.get("Principal").is_none() => true,
        None => names(
            &statement["Principal"],
            asked,
            statement["Effect"] == "Deny",
        ),
    };
    let lower = asked.action.to_lowercase();
    let of_action = |v: &Value| texts(v).iter().any(|p| like(&p.to_lowercase(), &lower));
    let action = match statement.get("NotAction") {
        Some(not) => !of_action(not),
        None => of_action(&statement["Action"]),
    };
    let of_resource = |value: &Value| {
        let patterns = texts(value).into_iter();
        let mut patterns = patterns.filter_map(|p| fill(&p, asked, variables));
        patterns.any(|pattern| like(&pattern, asked.resource))
    };
    let resource = match statement.get("NotResource") {
        // An exclusion that is not known allows nothing.
        Some(not) => {
            let mut patterns = texts(not).into_iter();
            let known = patterns.all(|p| fill(&p, asked, variables).is_some());
            !of_resource(not) && (statement["Effect"] == "Deny" || known)
        }
        None => of_resource(&statement["Resource"]),
    };
    principal && action && resource && conditions(&statement["Condition"], asked, variables)
}

fn names(principal: &Value, asked: &Asked<'_>, with_account: bool) -> bool {
    if principal == "*" {
        return true;
    }
    texts(&principal["AWS"]).iter().any(|name| {
        let of_user = asked.user.is_some_and(|user| {
            name == user || *name == format!("arn:aws:iam::000000000000:user/{user}")
        });
        let of_account = name == "000000000000" || name.ends_with(":root");
        name == "*" || of_user || (with_account && of_account && asked.user.is_some())
    })
}

/// Characters that stand for `*`, `?` and `$` as such, while a pattern is matched.
const PLAIN: [(char, char); 2] = [('*', '\u{1}'), ('?', '\u{2}')];

fn protect(text: &str) -> String {
    let mut text = text.to_owned();
    for (wild, plain) in PLAIN {
        text = text.replace(wild, &plain.to_string());
    }
    text
}

/// Replaces variables; `None` if one has no value.
fn fill(pattern: &str, asked: &Asked<'_>, variables: bool) -> Option<String> {
    if !variables {
        return Some(pattern.to_owned());
    }
    let mut out = String::new();
    let mut rest = pattern;
    while let Some((before, behind)) = rest.split_once("${") {
        let (name, after) = behind.split_once('}')?;
        out.push_str(before);
        match name {
            "*" | "?" | "$" => out.push_str(&protect(name)),
            name => {
                let (name, default) = match name.split_once(',') {
                    Some((name, default)) => (name, Some(default.trim().trim_matches('\''))),
                    None => (name, None),
                };
                let found = asked
                    .keys
                    .iter()
                    .find(|(key, _)| *key == name.to_lowercase());
                let value = match found {
                    Some((_, values)) if values.len() == 1 => values[0].as_str(),
                    Some(_) => return None,
                    None => default?,
                };
                out.push_str(&protect(value));
            }
        }
        rest = after;
    }
    out.push_str(rest);
    Some(out)
}

/// Matches by recursion.
fn like(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    fn from(pattern: &[char], text: &[char]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (Some(('*', rest)), None) => from(rest, text),
            (Some(('*', rest)), Some((_, more))) => from(rest, text) || from(pattern, more),
            (Some(('?', rest)), Some((_, more))) => from(rest, more),
            (Some(('\u{1}', rest)), Some(('*', more))) => from(rest, more),
            (Some(('\u{2}', rest)), Some(('?', more))) => from(rest, more),
            (Some((wanted, rest)), Some((found, more))) => wanted == found && from(rest, more),
            _ => false,
        }
    }
    from(&pattern, &text)
}

fn conditions(block: &Value, asked: &Asked<'_>, variables: bool) -> bool {
    let Value::Object(operators) = block else {
        return true;
    };
    operators.iter().all(|(operator, keys)| {
        let Value::Object(keys) = keys else {
            return true;
        };
        let holds = |(key, wanted): (&String, &Value)| {
            condition(operator, key, &texts(wanted), asked, variables)
        };
        keys.iter().all(holds)
    })
}

fn condition(
    operator: &str,
    key: &str,
    wanted: &[String],
    asked: &Asked<'_>,
    variables: bool,
) -> bool {
    let found = asked
        .keys
        .iter()
        .find(|(name, _)| *name == key.to_lowercase());
    let found = found.map(|(_, values)| values);
    if operator == "Null" {
        let absent = if found.is_none() { "true" } else { "false" };
        return wanted.iter().any(|value| value == absent);
    }
    let (set, operator) = operator.split_once(':').unwrap_or(("", operator));
    let if_exists = operator.ends_with("IfExists");
    let operator = operator.trim_end_matches("IfExists");
    if found.is_none() && if_exists {
        return true;
    }
    let negated = operator.contains("Not");
    let positive = operator.replace("Not", "");
    let one = |value: &str| {
        let any = wanted.iter().any(|wanted| {
            fill(wanted, asked, variables).is_some_and(|wanted| test(&positive, &wanted, value))
        });
        any != negated
    };
    match (set, found) {
        ("ForAllValues", values) => values.is_none_or(|values| values.iter().all(|v| one(v))),
        ("ForAnyValue", values) => values.is_some_and(|values| values.iter().any(|v| one(v))),
        (_, None) => negated,
        (_, Some(values)) if negated => values.iter().all(|v| one(v)),
        (_, Some(values)) => values.iter().any(|v| one(v)),
    }
}

fn test(operator: &str, wanted: &str, value: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    match operator {
        "StringEquals" => plain(wanted) == value,
        "StringEqualsIgnoreCase" => plain(wanted).to_lowercase() == value.to_lowercase(),
        "StringLike" => like(wanted, value),
        "Bool" => wanted == value,
        "NumericEquals" => number(wanted) == number(value) && number(value).is_some(),
        "NumericLessThan" => number(value).is_some_and(|v| Some(v) < number(wanted)),
        "IpAddress" => {
            let (network, bits) = wanted.split_once('/').unwrap_or((wanted, "32"));
            let bit_text = |text: &str| -> Option<String> {
                let octets: Option<Vec<u8>> = text.split('.').map(|o| o.parse().ok()).collect();
                Some(octets?.iter().map(|octet| format!("{octet:08b}")).collect())
            };
            let bits: usize = bits.parse().unwrap_or(32);
            match (bit_text(network), bit_text(value)) {
                (Some(network), Some(value)) => network[..bits] == value[..bits],
                _ => false,
            }
        }
        other => panic!("the reference does not know {other}"),
    }
}

/// Undoes [`protect`] where `*` is no wildcard anyway.
fn plain(text: &str) -> String {
    text.replace('\u{1}', "*").replace('\u{2}', "?")
}
