use super::*;

const HOOK: &str = "arn:archipel:events::hook:webhook";

fn known(name: &str) -> Option<EventTarget> {
    (name == "hook").then(|| EventTarget {
        name: "hook".into(),
        kind: "webhook".into(),
        backlog: 10,
        refuses: false,
    })
}

fn parsed(inside: &str) -> S3Result<Option<Notification>> {
    let text = format!("<NotificationConfiguration>{inside}</NotificationConfiguration>");
    parse(text.as_bytes(), known, || "made".into())
}

fn queue(id: &str, event: &str, filter: &str) -> String {
    format!(
        "<QueueConfiguration><Id>{id}</Id><Queue>{HOOK}</Queue><Event>{event}</Event>{filter}</QueueConfiguration>"
    )
}

fn filter(name: &str, value: &str) -> String {
    let rule = format!("<FilterRule><Name>{name}</Name><Value>{value}</Value></FilterRule>");
    format!("<Filter><S3Key>{rule}</S3Key></Filter>")
}

#[test]
fn configuration_is_written_as_it_was_read() {
    let sent = [
        queue("a", "s3:ObjectCreated:*", &filter("prefix", "a/")),
        format!(
            "<TopicConfiguration><Id>t</Id><Topic>{HOOK}</Topic><Event>s3:ObjectRemoved:Delete</Event></TopicConfiguration>"
        ),
        format!(
            "<CloudFunctionConfiguration><CloudFunction>{HOOK}</CloudFunction><Event>s3:ObjectAcl:Put</Event></CloudFunctionConfiguration>"
        ),
    ];
    let read = parsed(&sent.concat()).unwrap().unwrap();
    let ids: Vec<_> = read.rules.iter().map(|rule| rule.id.as_str()).collect();
    assert_eq!(ids, ["a", "t", "made"]);
    assert_eq!(read.rules[0].prefix.as_deref(), Some("a/"));
    let written = document(Some(&read)).finish();
    let again = parse(&written, known, || "other".into()).unwrap().unwrap();
    assert_eq!(again, read);
    assert_eq!(parsed("").unwrap(), None);
}

/// Nothing here can cause them, so nobody misses them. Retentions, however, are set here, and
/// cause no events.
#[test]
fn events_that_never_happen_may_be_asked_for() {
    for event in [
        "s3:ObjectAnnotation:*",
        "s3:ObjectAnnotation:Put",
        "s3:ObjectAnnotation:Delete",
        "s3:ObjectRestore:*",
    ] {
        let read = parsed(&queue("a", event, "")).unwrap().unwrap();
        assert_eq!(read.rules[0].events, [event]);
    }
    let refused = parsed(&queue("a", "s3:ObjectRetention:Put", ""));
    assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
}

#[test]
fn errors_are_those_of_s3() {
    let all = "s3:ObjectCreated:*";
    let twice = format!(
        "{}{}",
        queue("a", all, ""),
        queue("b", "s3:ObjectCreated:Put", "")
    );
    let same = format!(
        "{}{}",
        queue("a", all, ""),
        queue("a", "s3:ObjectAcl:Put", "")
    );
    for (inside, code) in [
        (queue("a", "s3:Nothing", ""), Code::InvalidArgument),
        (twice, Code::InvalidArgument),
        (same, Code::InvalidArgument),
        (
            queue("a", all, &filter("infix", "x")),
            Code::InvalidArgument,
        ),
        (queue(&"i".repeat(256), all, ""), Code::InvalidArgument),
        (
            queue("a", all, "").replace("hook:", "other:"),
            Code::InvalidArgument,
        ),
        (
            queue("a", all, "").replace(":webhook", ":kafka"),
            Code::InvalidArgument,
        ),
        (
            queue("a", all, "").replace("archipel", "aws"),
            Code::InvalidArgument,
        ),
        (queue("a", all, "<Wrong/>"), Code::MalformedXML),
        (
            queue("a", all, "").replace(&format!("<Event>{all}</Event>"), ""),
            Code::MalformedXML,
        ),
        ("<EventBridgeConfiguration/>".into(), Code::NotImplemented),
        ("<Other/>".into(), Code::MalformedXML),
    ] {
        let error = parsed(&inside).unwrap_err();
        assert_eq!(error.code(), code, "{inside}: {}", error.message());
    }
}
