//! Names of buckets, and the domains that may stand for one.

use crate::error::Error;

/// The longest domain that may be an alias.
const MAX_DOMAIN_BYTES: usize = 190;

/// Checks an alias: a name of a bucket, or a domain.
pub fn check_alias(name: &str) -> Result<(), Error> {
    let label = |label: &str| {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(plain)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // The last label of a domain is no number, and that of an IP address is one.
    let ends_with_a_number = name
        .rsplit('.')
        .next()
        .is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit()));
    let is_domain = name.len() <= MAX_DOMAIN_BYTES
        && name.contains('.')
        && name.split('.').all(label)
        && !ends_with_a_number;
    if is_domain {
        return Ok(());
    }
    check_bucket_name(name)
}

/// The first segment of the paths of health checks on the address for S3.
const HEALTH: &str = "health";

/// Checks a bucket's name against S3's rules for general purpose buckets.
///
/// Source: AWS, "Bucket naming rules".
pub fn check_bucket_name(name: &str) -> Result<(), Error> {
    let refuse = |why: &str| Err(Error::InvalidName(format!("bucket name {name:?}: {why}")));
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if !(3..=63).contains(&name.len()) {
        return refuse("3 to 63 characters are allowed");
    }
    if !name.chars().all(|c| plain(c) || c == '-' || c == '.') {
        return refuse("lower-case letters, digits, hyphens and dots are allowed");
    }
    if !name.starts_with(plain) || !name.ends_with(plain) {
        return refuse("it must begin and end with a letter or a digit");
    }
    if name.contains("..") {
        return refuse("two dots in a row are not allowed");
    }
    if name.split('.').count() == 4 && name.split('.').all(|p| p.parse::<u8>().is_ok()) {
        return refuse("it must not look like an IP address");
    }
    let reserved_prefix = ["xn--", "sthree-", "amzn-s3-demo-"];
    let reserved_suffix = [
        "-s3alias",
        "--ol-s3",
        ".mrap",
        "--x-s3",
        "--table-s3",
        "-an",
    ];
    if reserved_prefix.iter().any(|p| name.starts_with(p))
        || reserved_suffix.iter().any(|s| name.ends_with(s))
    {
        return refuse("this beginning or ending is reserved");
    }
    if name == HEALTH {
        return refuse("it is reserved for health checks");
    }
    Ok(())
}
