use proptest::prelude::*;

use super::*;
use crate::s3::respond::http_date;

fn rule(inside: &str) -> String {
    format!("<LifecycleConfiguration><Rule>{inside}</Rule></LifecycleConfiguration>")
}

/// A rule with this filter and these actions.
fn with(filter: &str, actions: &str) -> S3Result<Lifecycle> {
    let inside = format!("<ID>r</ID>{filter}<Status>Enabled</Status>{actions}");
    parse(rule(&inside).as_bytes())
}

const ALL: &str = "<Filter/>";
const DAYS: &str = "<Expiration><Days>1</Days></Expiration>";

#[track_caller]
fn refused(filter: &str, actions: &str, code: Code) {
    let error = with(filter, actions).unwrap_err();
    assert_eq!(
        error.code(),
        code,
        "{filter} {actions}: {}",
        error.message()
    );
}

#[test]
fn every_element_is_read_and_written_back() {
    let sent = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
        <LifecycleConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
        <Rule><ID>one</ID><Filter><And><Prefix>p/</Prefix>\
        <Tag><Key>a</Key><Value>1</Value></Tag><Tag><Key>b</Key><Value></Value></Tag>\
        <ObjectSizeGreaterThan>0</ObjectSizeGreaterThan>\
        <ObjectSizeLessThan>1024</ObjectSizeLessThan></And></Filter><Status>Enabled</Status>\
        <Expiration><Days>3</Days></Expiration>\
        <NoncurrentVersionExpiration><NoncurrentDays>4</NoncurrentDays>\
        <NewerNoncurrentVersions>5</NewerNoncurrentVersions></NoncurrentVersionExpiration></Rule>\
        <Rule><ID>two</ID><Filter><Prefix></Prefix></Filter><Status>Disabled</Status>\
        <Expiration><Date>2026-11-22T00:00:00.000Z</Date></Expiration>\
        <AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation>\
        </AbortIncompleteMultipartUpload></Rule>\
        <Rule><ID>three</ID><Filter><Prefix>q</Prefix></Filter><Status>Enabled</Status>\
        <Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration></Rule>\
        <Rule><ID>four</ID><Filter></Filter><Status>Enabled</Status>\
        <NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays>\
        </NoncurrentVersionExpiration></Rule>\
        </LifecycleConfiguration>";
    let found = parse(sent.as_bytes()).unwrap();
    assert_eq!(found.rules.len(), 4);
    assert_eq!(
        found.rules[1].expiration,
        Some(Expiration::Date(1_795_305_600_000))
    );
    let written = String::from_utf8(document(&found).finish()).unwrap();
    assert_eq!(written, sent);
    // The old form has a prefix and nothing else.
    let old = sent
        .replace("<Filter></Filter>", "<Prefix></Prefix>")
        .replace("<Filter><Prefix>", "<Prefix>")
        .replace("</Prefix></Filter>", "</Prefix>");
    let (head, rules) = old.split_once("<Rule>").unwrap();
    let (_, rules) = rules.split_once("<Rule>").unwrap();
    let old = format!("{head}<Rule>{rules}");
    let found = parse(old.as_bytes()).unwrap();
    assert!(found.rules.iter().all(|rule| rule.filter.old_form));
    assert_eq!(found.rules.len(), 3);
    let written = String::from_utf8(document(&found).finish()).unwrap();
    assert_eq!(written, old);
}

#[test]
fn refusals_of_filters() {
    let tag = "<Tag><Key>a</Key><Value>1</Value></Tag>";
    let size = "<ObjectSizeLessThan>9</ObjectSizeLessThan>";
    for malformed in [
        String::new(),
        "<Prefix/><Filter/>".into(),
        format!("<Filter><Prefix>a</Prefix>{tag}</Filter>"),
        format!("<Filter>{tag}{size}</Filter>"),
        format!("<Filter>{tag}{tag}</Filter>"),
        format!("<Filter><And>{tag}</And></Filter>"),
        "<Filter><And/></Filter>".into(),
        format!("<Filter><And>{tag}{size}</And>{size}</Filter>"),
        "<Filter><ObjectSizeLessThan>x</ObjectSizeLessThan></Filter>".into(),
        "<Filter><ObjectSizeGreaterThan>-1</ObjectSizeGreaterThan></Filter>".into(),
        "<Filter><Suffix>a</Suffix></Filter>".into(),
        "<Filter><Tag><Key>a</Key></Tag></Filter>".into(),
    ] {
        refused(&malformed, DAYS, Code::MalformedXML);
    }
    let twice = format!("<Filter><And>{tag}{tag}</And></Filter>");
    refused(&twice, DAYS, Code::InvalidRequest);
    let long = format!("<Filter><Prefix>{}</Prefix></Filter>", "p".repeat(1025));
    refused(&long, DAYS, Code::InvalidRequest);
    let bad = "<Filter><Tag><Key>a?</Key><Value/></Tag></Filter>";
    refused(bad, DAYS, Code::InvalidTag);
    let sizes = |low: u64, high: u64| {
        format!(
            "<Filter><And><ObjectSizeGreaterThan>{low}</ObjectSizeGreaterThan>\
             <ObjectSizeLessThan>{high}</ObjectSizeLessThan></And></Filter>"
        )
    };
    refused(&sizes(5, 5), DAYS, Code::InvalidRequest);
    assert!(with(&sizes(5, 6), DAYS).is_ok());
    let none = "<Filter><ObjectSizeLessThan>0</ObjectSizeLessThan></Filter>";
    refused(none, DAYS, Code::InvalidRequest);
}

#[test]
fn refusals_of_actions() {
    refused(ALL, "", Code::InvalidRequest);
    for days in ["0", "-1"] {
        let days = format!("<Expiration><Days>{days}</Days></Expiration>");
        refused(ALL, &days, Code::InvalidArgument);
    }
    for malformed in [
        "<Expiration/>",
        "<Expiration><Days>x</Days></Expiration>",
        "<Expiration><Days>1</Days><Date>2026-11-22T00:00:00Z</Date></Expiration>",
        "<Expiration><Days>1</Days><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>",
        "<Expiration><ExpiredObjectDeleteMarker>maybe</ExpiredObjectDeleteMarker></Expiration>",
        "<Expiration><Date>soon</Date></Expiration>",
        "<Expiration><Date>2030-W01-1</Date></Expiration>",
        "<Expiration><Date>2030-001</Date></Expiration>",
        "<Expiration><Date>20300101</Date></Expiration>",
        "<Expiration><Date>20300101T000000Z</Date></Expiration>",
        "<Expiration><Date>2030-01-01T00:00:00</Date></Expiration>",
        "<Expiration><Days>1</Days></Expiration><Expiration><Days>1</Days></Expiration>",
        "<NoncurrentVersionExpiration/>",
        "<NoncurrentVersionExpiration><NewerNoncurrentVersions>1</NewerNoncurrentVersions></NoncurrentVersionExpiration>",
        "<AbortIncompleteMultipartUpload/>",
        "<Forget/>",
    ] {
        refused(ALL, malformed, Code::MalformedXML);
    }
    for date in [
        "2026-11-22T01:00:00Z",
        "2026-11-22T00:00:00+01:00",
        "2026-11-22T00:00:00.5Z",
        "9999-12-31T00:00:00-01:00",
        "9999-12-31T23:00:00-23:00",
    ] {
        let date = format!("<Expiration><Date>{date}</Date></Expiration>");
        refused(ALL, &date, Code::InvalidArgument);
    }
    for date in [
        "2026-11-22",
        "2026-11-22T00:00:00Z",
        "2026-11-22T01:00:00+01:00",
    ] {
        let date = format!("<Expiration><Date>{date}</Date></Expiration>");
        let found = with(ALL, &date).unwrap().rules[0].expiration;
        assert_eq!(found, Some(Expiration::Date(1_795_305_600_000)), "{date}");
    }
    let keep = |n: &str| {
        format!(
            "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays>\
             <NewerNoncurrentVersions>{n}</NewerNoncurrentVersions></NoncurrentVersionExpiration>"
        )
    };
    for kept in ["0", "101"] {
        refused(ALL, &keep(kept), Code::InvalidArgument);
    }
    assert!(with(ALL, &keep("100")).is_ok());
    refused("<Prefix/>", &keep("1"), Code::InvalidRequest);
    for transition in [
        "<Transition><Days>1</Days><StorageClass>GLACIER</StorageClass></Transition>",
        "<NoncurrentVersionTransition><NoncurrentDays>1</NoncurrentDays><StorageClass>GLACIER</StorageClass></NoncurrentVersionTransition>",
    ] {
        refused(ALL, transition, Code::NotImplemented);
    }
}

#[test]
fn uploads_and_markers_have_neither_tags_nor_sizes() {
    let abort = "<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>";
    let marker =
        "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>";
    let tag = "<Filter><Tag><Key>a</Key><Value/></Tag></Filter>";
    let size = "<Filter><ObjectSizeGreaterThan>1</ObjectSizeGreaterThan></Filter>";
    for action in [abort, marker] {
        refused(tag, action, Code::InvalidRequest);
        refused(size, action, Code::InvalidRequest);
        assert!(with("<Filter><Prefix>p</Prefix></Filter>", action).is_ok());
    }
    let none = "<AbortIncompleteMultipartUpload><DaysAfterInitiation>0</DaysAfterInitiation></AbortIncompleteMultipartUpload>";
    refused(ALL, none, Code::InvalidArgument);
}

#[test]
fn refusals_of_whole_configurations() {
    let rule = |id: &str| {
        let id = format!("<ID>{id}</ID>");
        format!("<Rule>{id}<Filter/><Status>Enabled</Status>{DAYS}</Rule>")
    };
    let all = |rules: &str| {
        let document = format!("<LifecycleConfiguration>{rules}</LifecycleConfiguration>");
        parse(document.as_bytes()).map_err(|error| error.code())
    };
    let many = |count: usize| (0..count).map(|n| rule(&n.to_string())).collect::<String>();
    assert_eq!(all(&many(1000)).unwrap().rules.len(), 1000);
    assert_eq!(all(&many(1001)), Err(Code::MalformedXML));
    assert_eq!(all(""), Err(Code::MalformedXML));
    assert_eq!(all(&(rule("a") + &rule("a"))), Err(Code::InvalidArgument));
    assert!(all(&(rule("") + &rule(""))).is_ok());
    let old = |id: &str| rule(id).replace("<Filter/>", &format!("<Prefix>{id}</Prefix>"));
    assert!(all(&(old("a") + &old("b"))).is_ok());
    for overlapping in [old("a") + &old("ab"), old("ab") + &old("b") + &old("a")] {
        assert_eq!(all(&overlapping), Err(Code::InvalidRequest));
    }
    for mixed in [old("a") + &rule("b"), rule("a") + &old("b")] {
        assert_eq!(all(&mixed), Err(Code::InvalidRequest));
    }
    assert!(all(&rule(&"i".repeat(255))).is_ok());
    assert_eq!(all(&rule(&"i".repeat(256))), Err(Code::InvalidArgument));
    let off = rule("a").replace("Enabled", "enabled");
    assert_eq!(all(&off), Err(Code::MalformedXML));
    assert_eq!(
        all(&rule("a").replace("<Status>Enabled</Status>", "")),
        Err(Code::MalformedXML)
    );
}

#[test]
fn dates_far_away_are_told_without_harm() {
    assert_eq!(
        http_date(1_390_089_600_000),
        "Sun, 19 Jan 2014 00:00:00 GMT"
    );
    assert_eq!(http_date(u64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
}

proptest! {
    /// Noise is refused, and never more than that.
    #[test]
    fn noise_is_an_error_not_a_panic(
        inside in "(<(Rule|Filter|And|Tag|Expiration|Date|Days|Status|Prefix)>|</(Rule|Filter|And|Tag|Expiration|Date|Days|Status|Prefix)>|[0-9TZ:a-]{0,5}){0,12}",
        date in "[0-9+TZ:.-]{0,30}",
    ) {
        let _ = parse(rule(&inside).as_bytes());
        let _ = with(ALL, &format!("<Expiration><Date>{date}</Date></Expiration>"));
    }
}
