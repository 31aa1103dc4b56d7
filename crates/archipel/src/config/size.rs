//! Sizes in bytes, as text.

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

/// Returns the number of bytes in `text` (`"4TB"`, `"512 GiB"`, `"1000000"`), or `None` if it is no
/// size.
pub fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, factor) = UNITS
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))
        .unwrap_or((text, 1));
    number.trim().parse::<u64>().ok()?.checked_mul(factor)
}

/// Formats `bytes` for people: at most four digits and a unit.
pub fn show(bytes: u64) -> String {
    const SHOWN: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < SHOWN.len() {
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
        ] {
            assert_eq!(parse(text), Some(bytes), "{text}");
        }
        for text in ["", "GB", "1.5GB", "-1", "1XB", "99999999999PB"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(show(1023), "1023 B");
        assert_eq!(show(1536), "1.5 KiB");
    }
}
