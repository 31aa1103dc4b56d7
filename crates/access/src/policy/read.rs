//! Reads policies strictly.

use super::{ARN, Effect, Listed, Statement};
use crate::action::{ActionSet, ResourceKind};
use crate::condition::Condition;
use crate::json::Json;
use crate::malformed::Malformed;
use crate::pattern::{self, Syntax, Template};
use crate::principal::Principals;

/// The elements of a statement.
const ELEMENTS: [&str; 9] = [
    "Sid",
    "Effect",
    "Principal",
    "NotPrincipal",
    "Action",
    "NotAction",
    "Resource",
    "NotResource",
    "Condition",
];

/// Reads the statements of a policy of a bucket.
pub(super) fn statements(json: &Json, bucket: Option<&str>) -> Result<Vec<Statement>, Malformed> {
    let Json::Object(members) = json else {
        return Err(Malformed::syntax("", "a policy is an object"));
    };
    let (mut statements, mut variables) = (None, false);
    for (name, value) in members {
        match (name.as_str(), value) {
            ("Version", Json::String(version)) => match version.as_str() {
                "2012-10-17" => variables = true,
                "2008-10-17" => {}
                _ => {
                    return Err(Malformed::syntax(
                        "Version",
                        &format!("{version:?} is unknown"),
                    ));
                }
            },
            ("Id", Json::String(_)) => {}
            ("Statement", Json::Object(_) | Json::Array(_)) => statements = Some(value),
            ("Version" | "Id" | "Statement", _) => {
                return Err(Malformed::syntax(name, "the value is of a wrong type"));
            }
            _ => return Err(Malformed::unknown("", name)),
        }
    }
    let statements = statements.ok_or_else(|| Malformed::missing("", "Statement"))?;
    if statements.list().is_empty() {
        return Err(Malformed::syntax("Statement", "it is empty"));
    }
    let mut all: Vec<Statement> = Vec::new();
    for (number, statement) in statements.list().iter().enumerate() {
        let at = format!("Statement[{number}]");
        let reader = Reader {
            at: &at,
            bucket,
            variables,
        };
        let statement = reader.statement(statement)?;
        let same = |other: &Statement| other.sid.is_some() && other.sid == statement.sid;
        if all.iter().any(same) {
            return Err(Malformed::syntax(&format!("{at}.Sid"), "it is given twice"));
        }
        all.push(statement);
    }
    Ok(all)
}

/// Reads one statement.
struct Reader<'a> {
    at: &'a str,
    /// The bucket that the policy is checked for.
    bucket: Option<&'a str>,
    variables: bool,
}

/// The members of a statement, by name.
type Members = [(String, Json)];

impl Reader<'_> {
    fn place(&self, element: &str) -> String {
        format!("{}.{element}", self.at)
    }

    fn statement(&self, json: &Json) -> Result<Statement, Malformed> {
        let Json::Object(members) = json else {
            return Err(Malformed::syntax(self.at, "a statement is an object"));
        };
        let unknown = members
            .iter()
            .find(|(n, _)| !ELEMENTS.contains(&n.as_str()));
        if let Some((name, _)) = unknown {
            return Err(Malformed::unknown(self.at, name));
        }
        let get = |name: &str| members.iter().find(|(n, _)| n == name).map(|(_, v)| v);
        let sid = match get("Sid") {
            None => None,
            Some(Json::String(sid)) => Some(sid.clone()).filter(|sid| !sid.is_empty()),
            Some(_) => return Err(Malformed::syntax(&self.place("Sid"), "it is not a text")),
        };
        let effect = get("Effect").ok_or_else(|| Malformed::missing(self.at, "Effect"))?;
        let effect = match effect.text() {
            Some("Allow") => Effect::Allow,
            Some("Deny") => Effect::Deny,
            _ => return Err(Malformed::new("Invalid effect", &self.place("Effect"), "")),
        };
        let (actions, named) = self.actions(members)?;
        let resources = self.resources(members)?;
        self.check_actions_apply(&named, &resources)?;
        Ok(Statement {
            sid,
            effect,
            principals: self.principals(members, effect)?,
            actions,
            resources,
            conditions: match get("Condition") {
                None => Vec::new(),
                Some(block) => {
                    Condition::parse_block(block, self.variables, &self.place("Condition"))?
                }
            },
        })
    }

    /// Returns the element of that name, or its negation: exactly one of them.
    fn either<'m>(
        &self,
        members: &'m Members,
        name: &str,
    ) -> Result<(Listed<&'m Json>, String), Malformed> {
        let not = format!("Not{name}");
        let get = |name: &str| members.iter().find(|(n, _)| n == name).map(|(_, v)| v);
        match (get(name), get(&not)) {
            (Some(value), None) => Ok((Listed::Is(value), self.place(name))),
            (None, Some(value)) => Ok((Listed::Not(value), self.place(&not))),
            (None, None) => Err(Malformed::missing(self.at, name)),
            (Some(_), Some(_)) => {
                let why = format!("{name} and {not} exclude one another");
                Err(Malformed::syntax(self.at, &why))
            }
        }
    }

    fn principals(
        &self,
        members: &Members,
        effect: Effect,
    ) -> Result<Listed<Principals>, Malformed> {
        let (element, at) = self.either(members, "Principal")?;
        match element {
            Listed::Is(value) => Principals::parse(value, &at).map(Listed::Is),
            Listed::Not(_) if effect == Effect::Allow => Err(Malformed::principal(
                &at,
                "NotPrincipal with the effect Allow is not supported",
            )),
            Listed::Not(value) => Principals::parse(value, &at).map(Listed::Not),
        }
    }

    /// Returns the actions of a statement, and what each text of `Action` names.
    fn actions(&self, members: &Members) -> Result<(ActionSet, Vec<ActionSet>), Malformed> {
        let (element, at) = self.either(members, "Action")?;
        let (Listed::Is(value) | Listed::Not(value)) = element;
        let names = value.texts().filter(|names| !names.is_empty());
        let names = names
            .ok_or_else(|| Malformed::action(&at, "it is neither a text nor a list of texts"))?;
        let mut each = Vec::new();
        for name in names {
            let of_s3 = name == "*" || name.get(..3).is_some_and(|p| p.eq_ignore_ascii_case("s3:"));
            let named = ActionSet::of_pattern(name);
            if !of_s3 || named == ActionSet::default() {
                return Err(Malformed::action(
                    &at,
                    &format!("{name:?} is no action of S3"),
                ));
            }
            each.push(named);
        }
        let set = each
            .iter()
            .fold(ActionSet::default(), |all, set| all.union(*set));
        Ok(match element {
            Listed::Is(_) => (set, each),
            Listed::Not(_) => (set.inverse(), Vec::new()),
        })
    }

    fn resources(&self, members: &Members) -> Result<Listed<Vec<Template>>, Malformed> {
        let (element, at) = self.either(members, "Resource")?;
        let (Listed::Is(value) | Listed::Not(value)) = element;
        let names = value.texts().filter(|names| !names.is_empty());
        let names = names
            .ok_or_else(|| Malformed::resource(&at, "it is neither a text nor a list of texts"))?;
        let syntax = Syntax {
            wildcards: true,
            variables: self.variables,
        };
        let mut all = Vec::new();
        for name in names {
            let template = Template::parse(name, syntax);
            let template = template.map_err(|why| Malformed::resource(&at, &why))?;
            if !self.can_name(&template, ResourceKind::Bucket)
                && !self.can_name(&template, ResourceKind::Object)
            {
                let bucket = self.bucket.unwrap_or_default();
                let why = format!("{name:?} is not in the bucket {bucket}");
                return Err(Malformed::resource(&at, &why));
            }
            all.push(template);
        }
        Ok(match element {
            Listed::Is(_) => Listed::Is(all),
            Listed::Not(_) => Listed::Not(all),
        })
    }

    /// Returns true if the template can name the bucket, or an object in it.
    fn can_name(&self, template: &Template, kind: ResourceKind) -> bool {
        let Some(bucket) = self.bucket else {
            return true;
        };
        let (pattern, bucket) = (template.widest(), format!("{ARN}{bucket}"));
        match kind {
            ResourceKind::Account => false,
            ResourceKind::Bucket => pattern::matches(&pattern, &bucket),
            ResourceKind::Object => {
                pattern::matches_some_with_prefix(&pattern, &format!("{bucket}/"))
            }
        }
    }

    /// Checks that each text of `Action` applies to one of the resources. AWS refuses statements
    /// that could never match.
    fn check_actions_apply(
        &self,
        named: &[ActionSet],
        resources: &Listed<Vec<Template>>,
    ) -> Result<(), Malformed> {
        let Listed::Is(resources) = resources else {
            return Ok(());
        };
        let kinds = [ResourceKind::Bucket, ResourceKind::Object];
        let kinds = kinds.map(|kind| {
            let is_named = resources
                .iter()
                .any(|resource| self.can_name(resource, kind));
            is_named.then_some(kind)
        });
        let applies = |set: &ActionSet| set.iter().any(|a| kinds.contains(&Some(a.resource())));
        if named.iter().all(applies) {
            return Ok(());
        }
        let what = "Action does not apply to any resource(s) in statement";
        Err(Malformed::new(what, self.at, ""))
    }
}
