//! A bucket's notification configuration: which events go to which target.

use serde::{Deserialize, Serialize};

/// The names of events that a rule can ask for, as S3 has them. Some never happen here: there is
/// nothing to restore, replicate, annotate or move to another storage class.
const NAMES: [&str; 30] = [
    "s3:IntelligentTiering",
    "s3:LifecycleExpiration:*",
    "s3:LifecycleExpiration:Delete",
    "s3:LifecycleExpiration:DeleteMarkerCreated",
    "s3:LifecycleTransition",
    "s3:ObjectAcl:Put",
    "s3:ObjectAnnotation:*",
    "s3:ObjectAnnotation:Delete",
    "s3:ObjectAnnotation:Put",
    "s3:ObjectCreated:*",
    "s3:ObjectCreated:CompleteMultipartUpload",
    "s3:ObjectCreated:Copy",
    "s3:ObjectCreated:Post",
    "s3:ObjectCreated:Put",
    "s3:ObjectRemoved:*",
    "s3:ObjectRemoved:Delete",
    "s3:ObjectRemoved:DeleteMarkerCreated",
    "s3:ObjectRestore:*",
    "s3:ObjectRestore:Completed",
    "s3:ObjectRestore:Delete",
    "s3:ObjectRestore:Post",
    "s3:ObjectTagging:*",
    "s3:ObjectTagging:Delete",
    "s3:ObjectTagging:Put",
    "s3:ReducedRedundancyLostObject",
    "s3:Replication:*",
    "s3:Replication:OperationFailedReplication",
    "s3:Replication:OperationMissedThreshold",
    "s3:Replication:OperationNotTracked",
    "s3:Replication:OperationReplicatedAfterThreshold",
];

/// Further names that clients of MinIO ask for when they listen, many of them by default. These
/// events never happen here, or have S3's names.
///
/// Source: minio-go, `pkg/notification`.
const OF_CLIENTS: [&str; 19] = [
    "s3:BucketCreated:*",
    "s3:BucketRemoved:*",
    "s3:LifecycleDelMarkerExpiration:Delete",
    "s3:ObjectAccessed:*",
    "s3:ObjectAccessed:Get",
    "s3:ObjectAccessed:GetLegalHold",
    "s3:ObjectAccessed:GetRetention",
    "s3:ObjectAccessed:Head",
    "s3:ObjectCreated:DeleteTagging",
    "s3:ObjectCreated:PutLegalHold",
    "s3:ObjectCreated:PutRetention",
    "s3:ObjectCreated:PutTagging",
    "s3:ObjectTransition:*",
    "s3:ObjectTransition:Complete",
    "s3:ObjectTransition:Failed",
    "s3:Replication:OperationCompletedReplication",
    "s3:Scanner:*",
    "s3:Scanner:BigPrefix",
    "s3:Scanner:ManyVersions",
];

/// The kind of element that names a target in the document. All kinds of targets do the same here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum NotificationKind {
    /// `TopicConfiguration`.
    #[serde(rename = "t")]
    Topic,
    /// `QueueConfiguration`.
    #[serde(rename = "q")]
    Queue,
    /// `CloudFunctionConfiguration`.
    #[serde(rename = "f")]
    Function,
}

/// A notification configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Notification {
    /// The rules. No two of them match the same event of the same key.
    #[serde(rename = "r")]
    pub rules: Vec<NotificationRule>,
}

/// One rule of a notification configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NotificationRule {
    /// Its name, unique in the configuration.
    #[serde(rename = "i")]
    pub id: String,
    /// The kind of the target, as the document names it.
    #[serde(rename = "k")]
    pub kind: NotificationKind,
    /// The address of the target, as the document gives it.
    #[serde(rename = "a")]
    pub arn: String,
    /// The name of the target.
    #[serde(rename = "t")]
    pub target: String,
    /// The names of events: see [`is_event_name`].
    #[serde(rename = "e")]
    pub events: Vec<String>,
    /// The beginning of the keys.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The end of the keys.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub suffix: Option<String>,
}

/// Returns true if S3 has an event of this name that a rule can ask for.
pub fn is_event_name(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Returns true if a listener may ask for events of this name: one of S3's, or one that clients of
/// MinIO ask for.
pub fn is_listened_name(name: &str) -> bool {
    is_event_name(name) || OF_CLIENTS.contains(&name)
}

impl NotificationRule {
    /// Returns true if the rule asks for the event `name` (`s3:ObjectCreated:Put`) of a key.
    pub fn matches(&self, name: &str, key: &str) -> bool {
        self.is_about(key) && self.events.iter().any(|asked| covers(asked, name))
    }

    /// Returns true if the rule asks for some events of a key.
    pub fn is_about(&self, key: &str) -> bool {
        key.starts_with(self.prefix.as_deref().unwrap_or_default())
            && key.ends_with(self.suffix.as_deref().unwrap_or_default())
    }
}

impl Notification {
    /// Returns the rule that asks for an event of a key.
    pub fn rule_for(&self, name: &str, key: &str) -> Option<&NotificationRule> {
        self.rules.iter().find(|rule| rule.matches(name, key))
    }

    /// Returns two rules that may both ask for one event of one key. S3 does not permit that.
    pub fn overlap(&self) -> Option<(&NotificationRule, &NotificationRule)> {
        let later = |n: usize| self.rules.iter().skip(n + 1);
        let pairs = self.rules.iter().enumerate();
        let mut pairs = pairs.flat_map(|(n, one)| later(n).map(move |two| (one, two)));
        pairs.find(|(one, two)| {
            let begin = either(&one.prefix, &two.prefix, |a, b| a.starts_with(b));
            let end = either(&one.suffix, &two.suffix, |a, b| a.ends_with(b));
            let mut events = one.events.iter();
            begin && end && events.any(|a| two.events.iter().any(|b| covers(a, b) || covers(b, a)))
        })
    }
}

/// Returns true if one of two filters is within the other.
fn either(a: &Option<String>, b: &Option<String>, within: impl Fn(&str, &str) -> bool) -> bool {
    let (a, b) = (
        a.as_deref().unwrap_or_default(),
        b.as_deref().unwrap_or_default(),
    );
    within(a, b) || within(b, a)
}

/// Returns true if asking for `asked` includes the event `name`.
pub(crate) fn covers(asked: &str, name: &str) -> bool {
    match asked.strip_suffix('*') {
        Some(group) => name.starts_with(group),
        None => asked == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(event: &str, prefix: &str, suffix: &str) -> NotificationRule {
        NotificationRule {
            id: format!("{event}{prefix}{suffix}"),
            kind: NotificationKind::Queue,
            arn: "arn:archipel:events::t:webhook".into(),
            target: "t".into(),
            events: vec![event.into()],
            prefix: (!prefix.is_empty()).then(|| prefix.into()),
            suffix: (!suffix.is_empty()).then(|| suffix.into()),
        }
    }

    #[test]
    fn rule_matches_its_events_and_keys() {
        let all = rule("s3:ObjectCreated:*", "photos/", ".jpg");
        assert!(all.matches("s3:ObjectCreated:Put", "photos/cat.jpg"));
        assert!(all.matches("s3:ObjectCreated:Copy", "photos/.jpg"));
        assert!(!all.matches("s3:ObjectRemoved:Delete", "photos/cat.jpg"));
        assert!(!all.matches("s3:ObjectCreated:Put", "photos/cat.png"));
        assert!(!all.matches("s3:ObjectCreated:Put", "other/cat.jpg"));
        let one = rule("s3:ObjectRemoved:Delete", "", "");
        assert!(one.matches("s3:ObjectRemoved:Delete", "anything"));
        assert!(!one.matches("s3:ObjectRemoved:DeleteMarkerCreated", "anything"));
    }

    #[test]
    fn rules_overlap_if_one_key_can_match_both() {
        for (one, two, overlap) in [
            (
                ("s3:ObjectCreated:*", "", ""),
                ("s3:ObjectCreated:Put", "", ""),
                true,
            ),
            (
                ("s3:ObjectCreated:Put", "", ""),
                ("s3:ObjectCreated:Copy", "", ""),
                false,
            ),
            (
                ("s3:ObjectCreated:*", "", ""),
                ("s3:ObjectRemoved:*", "", ""),
                false,
            ),
            (
                ("s3:ObjectCreated:*", "a/", ""),
                ("s3:ObjectCreated:*", "b/", ""),
                false,
            ),
            (
                ("s3:ObjectCreated:*", "a/", ""),
                ("s3:ObjectCreated:*", "a/b/", ""),
                true,
            ),
            (
                ("s3:ObjectCreated:*", "a/", ".jpg"),
                ("s3:ObjectCreated:*", "a/", ".png"),
                false,
            ),
            (
                ("s3:ObjectCreated:*", "a/", ""),
                ("s3:ObjectCreated:*", "", ".png"),
                true,
            ),
            (
                ("s3:ObjectCreated:*", "", "jpg"),
                ("s3:ObjectCreated:*", "", ".jpg"),
                true,
            ),
        ] {
            let rules = vec![rule(one.0, one.1, one.2), rule(two.0, two.1, two.2)];
            let found = Notification { rules }.overlap().is_some();
            assert_eq!(found, overlap, "{one:?} {two:?}");
        }
    }

    #[test]
    fn names_are_those_of_s3() {
        assert!(is_event_name("s3:ObjectCreated:*"));
        assert!(is_event_name("s3:LifecycleExpiration:DeleteMarkerCreated"));
        for wrong in [
            "s3:ObjectCreated",
            "ObjectCreated:Put",
            "s3:*",
            "s3:TestEvent",
            "",
        ] {
            assert!(!is_event_name(wrong), "{wrong}");
            assert!(!is_listened_name(wrong), "{wrong}");
        }
        // `mc watch` asks for these by default.
        for asked in ["s3:ObjectCreated:*", "s3:ObjectAccessed:*"] {
            assert!(is_listened_name(asked), "{asked}");
        }
        assert!(!is_event_name("s3:ObjectAccessed:*"));
    }
}
