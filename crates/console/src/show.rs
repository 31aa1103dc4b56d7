//! Numbers and times for people.

use time::OffsetDateTime;
use time::macros::format_description;

/// Returns a size with its unit: powers of 1000, as disks are sold.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && value < 99.95);
    format!("{value:.digits$} {}", UNITS[unit])
}

/// Reads a size: a number of bytes, or with a unit such as `500GB` or `500 GiB`.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(split.unwrap_or(text.len()));
    let factor: u64 = match unit.trim() {
        "" | "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

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
    fn sizes_have_units_and_few_digits() {
        let sizes = [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (99_960, "100 kB"),
            (4_000_000_000_000, "4.0 TB"),
            (u64::MAX, "18.4 EB"),
        ];
        for (size, text) in sizes {
            assert_eq!(bytes(size), text);
        }
    }

    #[test]
    fn sizes_are_read_with_and_without_units() {
        assert_eq!(parse_bytes("500GB"), Some(500_000_000_000));
        assert_eq!(parse_bytes("2 GiB"), Some(2 << 30));
        assert_eq!(parse_bytes("0"), Some(0));
        for wrong in ["", "GB", "1.5GB", "-1", "5 apples", "99999999999TB"] {
            assert_eq!(parse_bytes(wrong), None, "{wrong}");
        }
    }

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
