//! Sizes in bytes, as text. The one rule: what people see is in powers of 1024 (KiB, MiB, GiB);
//! what they write may also be in powers of 1000 (kB, MB, GB).

/// The units, longest first so that the `B` of `KiB` is not taken for the unit.
const UNITS: [(&str, u64); 12] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("PiB", 1 << 50),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("PB", 1_000_000_000_000_000),
    ("B", 1),
];

/// From this value on, the next unit is shown: with one decimal it would be `1024.0`.
const NEXT_UNIT: f64 = 1023.95;

/// Returns the number of bytes in `text` (`"4TB"`, `"465.7 GiB"`, `"1000000"`), or `None` if it is no
/// size. A part of a byte is left out.
pub fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, factor) = UNITS
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))
        .unwrap_or((text, 1));
    let number = number.trim();
    let (whole, tenths) = number.split_once('.').unwrap_or((number, ""));
    let whole = whole.parse::<u64>().ok()?.checked_mul(factor)?;
    if tenths.is_empty() {
        return (!number.ends_with('.')).then_some(whole);
    }
    let digits = u32::try_from(tenths.len()).ok().filter(|n| *n <= 6)?;
    if factor == 1 || !tenths.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part = u128::from(tenths.parse::<u64>().ok()?) * u128::from(factor);
    whole.checked_add(u64::try_from(part / 10u128.pow(digits)).ok()?)
}

/// Formats `bytes` for people, in powers of 1024: one decimal and a unit.
pub fn show(bytes: u64) -> String {
    const SHOWN: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= NEXT_UNIT && unit + 1 < SHOWN.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{value:.1} {}", SHOWN[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::{parse, show};

    #[test]
    fn sizes_are_parsed_with_and_without_units() {
        for (text, bytes) in [
            ("0", 0),
            ("1000", 1000),
            ("1kB", 1000),
            ("1 KiB", 1024),
            (" 4TB ", 4_000_000_000_000),
            ("2GiB", 2 << 30),
            ("7B", 7),
            ("1.5GB", 1_500_000_000),
            ("465.7 GiB", 500_041_567_436),
            ("0.000001kB", 0),
        ] {
            assert_eq!(parse(text), Some(bytes), "{text}");
        }
        for text in [
            "",
            "GB",
            ".5GB",
            "1.GB",
            "1.5",
            "1.5B",
            "1.-5GB",
            "1.0000001GB",
            "-1",
            "1XB",
            "99999999999PB",
            "18446744073709551615.9kB",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_shown_in_powers_of_1024() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            ((1 << 40) - 1, "1.0 TiB"),
            (500_000_000_000, "465.7 GiB"),
            (4_000_000_000_000, "3.6 TiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(show(bytes), text);
        }
    }
}
