//! Dates and times in documents and headers.
//!
//! Source: RFC 3339. ISO 8601 has more forms, such as weeks and days of the year, which S3 does not
//! take.

use time::format_description::well_known::{Iso8601, Rfc3339};
use time::{Date, OffsetDateTime};

/// Returns true if a text begins with `YYYY-MM-DD`, in digits.
fn has_date(text: &str) -> bool {
    let form = b"dddd-dd-dd";
    let fits = |(byte, form): (&u8, &u8)| match form {
        b'd' => byte.is_ascii_digit(),
        other => byte == other,
    };
    text.len() >= form.len() && text.as_bytes().iter().zip(form).all(fits)
}

/// Reads a date and a time with a zone: `2026-11-22T00:00:00Z`, also with a fraction or an offset.
pub fn time(text: &str) -> Option<OffsetDateTime> {
    let capital = |at| matches!(text.as_bytes().get(at), Some(b'T'));
    let is_plain = has_date(text) && capital(10) && !text.ends_with('z');
    let time = OffsetDateTime::parse(text, &Rfc3339).ok();
    time.filter(|_| is_plain)
}

/// Reads a date: `2026-11-22`.
pub fn date(text: &str) -> Option<Date> {
    let date = Date::parse(text, &Iso8601::PARSING).ok();
    date.filter(|_| has_date(text) && text.len() == 10)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{date, time};

    #[test]
    fn only_the_forms_of_rfc_3339_are_read() {
        let at = |text| time(text).map(|time| time.unix_timestamp());
        let midnight = Some(1_795_305_600);
        assert_eq!(at("2026-11-22T00:00:00Z"), midnight);
        assert_eq!(at("2026-11-22T00:00:00.250Z"), midnight);
        assert_eq!(at("2026-11-22T01:30:00+01:30"), midnight);
        for other in [
            "2026-W47-7T00:00:00Z",
            "2026-326T00:00:00Z",
            "20261122T000000Z",
            "20261122T00:00:00Z",
            "2026-11-22T000000Z",
            "2026-11-22T00:00:00",
            "2026-11-22T00:00Z",
            "2026-11-22T00Z",
            "2026-11-22T00:00:00+01",
            "2026-11-22 00:00:00Z",
            "2026-11-22t00:00:00z",
            "2026-11-22",
            "2026-11-31T00:00:00Z",
            "+002026-11-22T00:00:00Z",
            "soon",
            "",
        ] {
            assert_eq!(time(other), None, "{other}");
        }
        let day = date("2026-11-22").unwrap();
        let day = day.midnight().assume_utc();
        assert_eq!(Some(day.unix_timestamp()), midnight);
        for other in [
            "2026-W47-7",
            "2026-326",
            "20261122",
            "2026-11-31",
            "2026-11-22Z",
            "",
        ] {
            assert_eq!(date(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn noise_is_an_error_not_a_panic(text in "[0-9]{4}[0-9TZWtz:.+ä -]{0,20}") {
            let _ = (time(&text), date(&text));
        }
    }
}
