//! Reads policies strictly.

use super::{Effect, Kind, Listed, Statement};
use crate::action::{ActionSet, ResourceKind};
use crate::condition::{Condition, keys};
use crate::json::Json;
use crate::malformed::Malformed;
use crate::pattern::{self, Syntax, Template};
use crate::principal::Principals;
use crate::resource::bucket_arn;

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

/// Reads the statements of a policy.
pub(super) fn statements(json: &Json, kind: Kind<'_>) -> Result<Vec<Statement>, Malformed> {
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
            kind,
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
    kind: Kind<'a>,
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
            // Policies of buckets may have any text.
            Some(Json::String(sid))
                if !matches!(self.kind, Kind::Bucket(_))
                    && !sid.bytes().all(|b| b.is_ascii_alphanumeric()) =>
            {
                let why = "only letters A-Z, a-z and digits are allowed";
                return Err(Malformed::syntax(&self.place("Sid"), why));
            }
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
        let at = self.place("Condition");
        let conditions = match get("Condition") {
            None => Vec::new(),
            Some(block) => Condition::parse_block(block, self.variables, &at)?,
        };
        self.check_keys(&conditions, actions, &at)?;
        Ok(Statement {
            sid,
            effect,
            principals: self.principals(members, effect)?,
            actions,
            resources,
            conditions,
        })
    }

    /// Refuses keys that no request of the actions can have: a denial with a typing error would
    /// deny nothing.
    fn check_keys(
        &self,
        conditions: &[Condition],
        actions: ActionSet,
        at: &str,
    ) -> Result<(), Malformed> {
        // A policy that is stored stays readable.
        if !matches!(self.kind, Kind::Bucket(Some(_))) {
            return Ok(());
        }
        for key in conditions.iter().map(Condition::key) {
            if !keys::is_known(key) {
                let what = "Policy has an invalid condition key";
                return Err(Malformed::new(
                    what,
                    at,
                    &format!("{key:?} is a key neither of S3 nor of all services"),
                ));
            }
            if !keys::fits(key, actions) {
                let what =
                    "Conditions do not apply to combination of actions and resources in statement";
                return Err(Malformed::new(what, at, &format!("{key:?} is of listings")));
            }
        }
        Ok(())
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
        if self.kind == Kind::Identity {
            return match members.iter().find(|(n, _)| n.ends_with("Principal")) {
                Some((name, _)) => Err(Malformed::syntax(
                    &self.place(name),
                    "the policy of an identity names no principal",
                )),
                // Nobody is left out.
                None => Ok(Listed::Not(Principals::default())),
            };
        }
        let (element, at) = self.either(members, "Principal")?;
        match element {
            Listed::Is(value) => {
                let named = Principals::parse(value, &at)?;
                let is_bucket = matches!(self.kind, Kind::Bucket(_));
                // Services of AWS are nobody here, so that policies of AWS can be used as they are.
                if is_bucket && !named.providers.is_empty() {
                    let why = "identity providers are known to roles only";
                    return Err(Malformed::principal(&at, why));
                }
                Ok(Listed::Is(named))
            }
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
            let named = ActionSet::of_pattern(name);
            self.check_action(name, named)
                .map_err(|why| Malformed::action(&at, &why))?;
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

    fn check_action(&self, name: &str, named: ActionSet) -> Result<(), String> {
        let (service, rest) = name.split_once(':').unwrap_or(("", name));
        let service = service.to_ascii_lowercase();
        let is_none = named == ActionSet::default();
        let no = |what: &str| Err(format!("{name:?} is no action of {what}"));
        match self.kind {
            _ if name == "*" => Ok(()),
            Kind::Bucket(_) if service != "s3" || is_none => no("S3"),
            Kind::Trust if service != "sts" => no("STS"),
            Kind::Bucket(_) | Kind::Trust => Ok(()),
            // Actions that are none here match nothing, so that policies of AWS can be used as they
            // are.
            Kind::Identity => {
                let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
                match service.is_empty() || rest.is_empty() || !service.chars().all(plain) {
                    true => Err(format!("{name:?} is no action: SERVICE:ACTION")),
                    false => Ok(()),
                }
            }
        }
    }

    fn resources(&self, members: &Members) -> Result<Listed<Vec<Template>>, Malformed> {
        if self.kind == Kind::Trust {
            return match members.iter().find(|(n, _)| n.ends_with("Resource")) {
                Some((name, _)) => Err(Malformed::syntax(
                    &self.place(name),
                    "the policy that says who may assume a role names no resource",
                )),
                None => Ok(Listed::Not(Vec::new())),
            };
        }
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
            if self.kind == Kind::Identity && name != "*" && name.splitn(6, ':').count() < 6 {
                return Err(Malformed::resource(&at, &format!("{name:?} is no ARN")));
            }
            if let Kind::Bucket(Some(bucket)) = self.kind
                && !self.can_name(&template, ResourceKind::Bucket)
                && !self.can_name(&template, ResourceKind::Object)
            {
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
        let Kind::Bucket(Some(bucket)) = self.kind else {
            return true;
        };
        let (pattern, bucket) = (template.widest(), bucket_arn(bucket));
        match kind {
            ResourceKind::Account | ResourceKind::Identity => false,
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
        let (Kind::Bucket(_), Listed::Is(resources)) = (self.kind, resources) else {
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
