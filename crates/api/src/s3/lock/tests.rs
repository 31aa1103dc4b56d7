use http::HeaderValue;
use proptest::prelude::*;

use super::*;

const NOW: u64 = 1_767_225_600_000; // 2026-01-01

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let pairs = pairs.iter().map(|(name, value)| {
        let name = http::HeaderName::from_static(name);
        (name, HeaderValue::from_static(value))
    });
    pairs.collect()
}

fn code<T>(result: S3Result<T>) -> Option<Code> {
    result.err().map(|error| error.code())
}

#[test]
fn headers_of_new_objects_are_read() {
    let asked = headers(&[
        (MODE, "COMPLIANCE"),
        (UNTIL, "2026-01-02T00:00:00Z"),
        (HOLD, "ON"),
    ]);
    let lock = of_headers(&asked, NOW).unwrap();
    let retention = lock.retention.unwrap();
    assert_eq!(retention.mode, RetentionMode::Compliance);
    assert_eq!(retention.until_ms, NOW + 24 * 3600 * 1000);
    assert_eq!(lock.legal_hold, Some(true));
    assert!(of_headers(&headers(&[]), NOW).unwrap().is_empty());
    for wrong in [
        &[(MODE, "COMPLIANCE")][..],
        &[(UNTIL, "2026-01-02T00:00:00Z")],
        &[(MODE, "compliance"), (UNTIL, "2026-01-02T00:00:00Z")],
        &[(MODE, "GOVERNANCE"), (UNTIL, "2025-12-31T00:00:00Z")],
        &[(MODE, "GOVERNANCE"), (UNTIL, "2226-12-31T00:00:00Z")],
        &[(MODE, "GOVERNANCE"), (UNTIL, "tomorrow")],
        &[(MODE, "GOVERNANCE"), (UNTIL, "2027-W01-1T00:00:00Z")],
        &[(MODE, "GOVERNANCE"), (UNTIL, "20270101T000000Z")],
        &[(HOLD, "on")],
    ] {
        let wrong = of_headers(&headers(wrong), NOW);
        assert_eq!(code(wrong), Some(Code::InvalidArgument));
    }
}

#[test]
fn malformed_documents_are_refused() {
    let lock = |inner: &str| {
        let rule = format!("<Rule><DefaultRetention>{inner}</DefaultRetention></Rule>");
        let text = format!(
            "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>{rule}\
             </ObjectLockConfiguration>"
        );
        code(configuration(text.as_bytes()))
    };
    assert_eq!(lock("<Mode>GOVERNANCE</Mode><Days>1</Days>"), None);
    let malformed = Some(Code::MalformedXML);
    assert_eq!(lock("<Mode>GOVERNANCE</Mode>"), malformed);
    assert_eq!(lock("<Days>1</Days>"), malformed);
    assert_eq!(lock("<Mode>governance</Mode><Days>1</Days>"), malformed);
    let both = "<Mode>GOVERNANCE</Mode><Days>1</Days><Years>1</Years>";
    assert_eq!(lock(both), malformed);
    let invalid = Some(Code::InvalidArgument);
    assert_eq!(lock("<Mode>GOVERNANCE</Mode><Days>0</Days>"), invalid);
    assert_eq!(lock("<Mode>GOVERNANCE</Mode><Days>-1</Days>"), invalid);
    assert_eq!(lock("<Mode>GOVERNANCE</Mode><Years>101</Years>"), invalid);
    let disabled = b"<ObjectLockConfiguration><ObjectLockEnabled>Disabled</ObjectLockEnabled>\
                     </ObjectLockConfiguration>";
    assert_eq!(code(configuration(disabled)), malformed);
    let half = b"<Retention><Mode>GOVERNANCE</Mode></Retention>";
    assert_eq!(code(retention(half, NOW)), malformed);
    for until in [
        "2027-W01-1T00:00:00Z",
        "2027-001T00:00:00Z",
        "20270101T000000Z",
        "2027-01-01",
    ] {
        let text = format!(
            "<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>{until}</RetainUntilDate></Retention>"
        );
        assert_eq!(code(retention(text.as_bytes(), NOW)), malformed, "{until}");
    }
    assert_eq!(retention(b"<Retention/>", NOW), Ok(None));
    let hold = b"<LegalHold><Status>MAYBE</Status></LegalHold>";
    assert_eq!(code(legal_hold(hold)), malformed);
}

/// They would protect the version; nothing here does.
#[test]
fn event_holds_in_documents_are_not_implemented() {
    let missing = Some(Code::NotImplemented);
    let days = "<Days>1</Days>";
    for inner in [
        "<EventHold>ON</EventHold>".to_owned(),
        format!("<EventHoldDuration>{days}</EventHoldDuration>"),
        "<Mode>GOVERNANCE</Mode><RetainUntilDate>2026-01-02T00:00:00Z</RetainUntilDate>\
         <EventHold>ON</EventHold>"
            .to_owned(),
    ] {
        let text = format!("<Retention>{inner}</Retention>");
        assert_eq!(code(retention(text.as_bytes(), NOW)), missing, "{inner}");
    }
    let hold = format!("<DefaultEventHold>{days}</DefaultEventHold>");
    for inner in [hold.clone(), format!("<Mode>GOVERNANCE</Mode>{days}{hold}")] {
        let text = format!(
            "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule>\
             <DefaultRetention>{inner}</DefaultRetention></Rule></ObjectLockConfiguration>"
        );
        assert_eq!(code(configuration(text.as_bytes())), missing, "{inner}");
    }
}

proptest! {
    #[test]
    fn documents_are_read_back(governance: bool, days in 1u32..=36_500, ms in 1u64..1_000_000) {
        let mode = match governance {
            true => RetentionMode::Governance,
            false => RetentionMode::Compliance,
        };
        let period = match days {
            1..=100 => RetentionPeriod::Years(days),
            days => RetentionPeriod::Days(days),
        };
        let lock = BucketLock { default: Some(DefaultRetention { mode, period }) };
        let document = configuration_document(&lock).finish();
        prop_assert_eq!(configuration(&document), Ok(lock));
        let until = Retention { mode, until_ms: NOW + ms };
        let document = retention_document(until).finish();
        prop_assert_eq!(retention(&document, NOW), Ok(Some(until)));
    }
}
