//! Times as documents and messages have them.

use time::OffsetDateTime;

/// The last time that can be written: the end of the year 9999, in milliseconds since 1970.
pub const LAST_MS: u64 = 253_402_300_799_999;

/// Returns a time in milliseconds since 1970: to the millisecond, in UTC.
pub fn iso_time(millis: u64) -> String {
    let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(millis) * 1_000_000);
    let Ok(time) = time else {
        // Beyond the year 9999.
        return "9999-12-31T23:59:59.000Z".to_owned();
    };
    // Formatted by hand: a listing has a thousand times, and the general formatter was visible in
    // its profile.
    let (year, month, day) = time.to_calendar_date();
    let (hour, minute, second, milli) = time.to_hms_milli();
    let month = u8::from(month);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}
