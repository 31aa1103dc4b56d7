//! Numbers and times for people.

pub use archipel_base::size::{parse as parse_bytes, show as bytes};
use time::OffsetDateTime;
use time::macros::format_description;

/// Returns the time of a clock in UTC.
pub fn time(ms: u64) -> String {
    let time = OffsetDateTime::from_unix_timestamp((ms / 1000) as i64).ok();
    let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
    let text = time.and_then(|time| time.format(format).ok());
    text.map_or_else(String::new, |text| format!("{text} UTC"))
}

/// Returns a time of S3 (`2026-01-31T10:20:30.000Z`) as [`time`] writes it.
pub fn iso(text: &str) -> String {
    let seconds = text.split('.').next().unwrap_or_default();
    format!("{} UTC", seconds.trim_end_matches('Z').replace('T', " "))
}

/// Returns a length of time in its largest unit that is not too coarse.
pub fn duration(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Returns how many hundredths `part` is of `whole`.
pub fn percent(part: u64, whole: u64) -> u64 {
    match whole {
        0 => 0,
        whole => (u128::from(part) * 100 / u128::from(whole)).min(100) as u64,
    }
}

/// Returns a count with a space between thousands.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_shares_and_counts_are_for_people() {
        assert_eq!(time(1_369_353_600_000), "2013-05-24 00:00:00 UTC");
        assert_eq!((percent(1, 3), percent(5, 0), percent(9, 3)), (33, 0, 100));
        assert_eq!(duration(59), "59 s");
        assert_eq!(duration(7200), "2 h");
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(count(999), "999");
    }
}
