//! The values that an operator compares with.

use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use time::{Date, Month, Time};

use super::operator::{Kind, Relation};
use crate::context::Context;
use crate::pattern::{self, Syntax, Template, Token};

/// The values that an operator compares with.
#[derive(Clone, PartialEq, Debug)]
pub enum Values {
    /// Texts, with wildcards and variables as the operator has them.
    Texts(Vec<Template>),
    /// Texts in any case.
    AnyCase(Vec<Template>),
    /// ARNs, each component a pattern.
    Arns(Vec<Template>),
    Numbers(Relation, Vec<f64>),
    /// Milliseconds since 1970.
    Dates(Relation, Vec<i64>),
    Bools(Vec<bool>),
    Bytes(Vec<Vec<u8>>),
    Networks(Vec<Network>),
    /// True if the key has to be absent, false if it has to be present.
    Null(Vec<bool>),
}

/// The shortest prefixes that confine an address, as AWS has them.
const CONFINING_PREFIX: [u8; 2] = [8, 32];

/// The value of some keys for clients that do not say who they are.
const ANONYMOUS: &str = "anonymous";

impl Values {
    /// Reads values.
    ///
    /// # Errors
    /// Says which value is wrong.
    pub fn parse(kind: Kind, texts: &[String], variables: bool) -> Result<Values, String> {
        let wildcards = matches!(kind, Kind::StringLike | Kind::Arn);
        let syntax = Syntax {
            wildcards,
            variables,
        };
        let templates = || -> Result<Vec<_>, String> {
            texts.iter().map(|t| Template::parse(t, syntax)).collect()
        };
        Ok(match kind {
            Kind::StringEquals | Kind::StringLike => Values::Texts(templates()?),
            Kind::StringEqualsIgnoreCase => Values::AnyCase(templates()?),
            Kind::Arn => Values::Arns(arns(texts, syntax)?),
            Kind::Numeric(relation) => Values::Numbers(relation, all(texts, number, "number")?),
            Kind::Date(relation) => Values::Dates(relation, all(texts, date, "date")?),
            Kind::Bool => Values::Bools(all(texts, boolean, "Boolean")?),
            Kind::Null => Values::Null(all(texts, boolean, "Boolean")?),
            Kind::Binary => Values::Bytes(all(texts, bytes, "Base64 text")?),
            Kind::IpAddress => Values::Networks(all(texts, Network::parse, "IP address")?),
        })
    }

    /// Returns true if one of the values matches the value of a request.
    pub fn any_matches(&self, value: &str, context: &Context) -> bool {
        match self {
            Values::Texts(templates) => {
                let mut templates = templates.iter();
                templates.any(|template| template.matches(context, value))
            }
            Values::AnyCase(templates) => {
                let value = value.to_lowercase();
                let longest = value.chars().count();
                templates.iter().any(|template| {
                    let wanted = template.resolve(context, longest);
                    wanted.is_some_and(|wanted| lower(&wanted) == value)
                })
            }
            Values::Arns(templates) => templates.iter().any(|template| {
                let pattern = template.resolve(context, value.chars().count());
                pattern.is_some_and(|pattern| arn_matches(&pattern, value))
            }),
            Values::Numbers(relation, wanted) => number(value)
                .is_some_and(|value| wanted.iter().any(|wanted| relation.holds(value, *wanted))),
            Values::Dates(relation, wanted) => date(value)
                .is_some_and(|value| wanted.iter().any(|wanted| relation.holds(value, *wanted))),
            Values::Bools(wanted) => boolean(value).is_some_and(|value| wanted.contains(&value)),
            Values::Bytes(wanted) => bytes(value).is_some_and(|value| wanted.contains(&value)),
            Values::Networks(networks) => {
                let address = value.parse().ok();
                address.is_some_and(|address| networks.iter().any(|n| n.has(address)))
            }
            Values::Null(_) => false,
        }
    }

    /// Returns the condition keys of the variables in the values, in lower case.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let templates = match self {
            Values::Texts(templates) | Values::AnyCase(templates) | Values::Arns(templates) => {
                templates.as_slice()
            }
            _ => &[],
        };
        templates.iter().flat_map(Template::variables)
    }

    /// Returns true if `Null` holds for a key that is absent, or not.
    pub fn wants_null(&self, absent: bool) -> bool {
        matches!(self, Values::Null(wanted) if wanted.contains(&absent))
    }

    /// Returns true if each value is fixed: it has no wildcard or variable, is no large part of all
    /// addresses, and does not stand for anonymous clients.
    pub fn are_fixed(&self) -> bool {
        match self {
            Values::Texts(templates) | Values::Arns(templates) | Values::AnyCase(templates) => {
                templates.iter().all(|template| {
                    let anonymous = lower(&template.widest()) == ANONYMOUS;
                    template.is_fixed() && !anonymous
                })
            }
            Values::Networks(networks) => networks.iter().all(|network| {
                let [v4, v6] = CONFINING_PREFIX;
                network.prefix >= if network.address.is_ipv4() { v4 } else { v6 }
            }),
            _ => false,
        }
    }
}

fn all<T>(
    texts: &[String],
    parse: impl Fn(&str) -> Option<T>,
    what: &str,
) -> Result<Vec<T>, String> {
    let parse = |text: &String| parse(text).ok_or_else(|| format!("{text:?} is no {what}"));
    texts.iter().map(parse).collect()
}

/// Returns the text of tokens that are characters, in lower case.
fn lower(tokens: &[Token]) -> String {
    let characters = tokens.iter().map(|token| match token {
        Token::Char(letter) => *letter,
        Token::One => '?',
        Token::Any => '*',
    });
    characters.collect::<String>().to_lowercase()
}

fn arns(texts: &[String], syntax: Syntax) -> Result<Vec<Template>, String> {
    let parse = |text: &String| {
        // A lone `*` stands for every ARN.
        if text != "*" && text.splitn(6, ':').count() < 6 && !text.contains("${") {
            return Err(format!("{text:?} is no ARN"));
        }
        Template::parse(text, syntax)
    };
    texts.iter().map(parse).collect()
}

/// Compares the six components of an ARN one by one, so that no wildcard reaches beyond its own.
fn arn_matches(pattern: &[Token], value: &str) -> bool {
    if pattern == [Token::Any] {
        return true;
    }
    let wanted: Vec<_> = pattern.splitn(6, |t| *t == Token::Char(':')).collect();
    let found: Vec<_> = value.splitn(6, ':').collect();
    wanted.len() == 6
        && found.len() == 6
        && wanted
            .iter()
            .zip(found)
            .all(|(w, f)| pattern::matches(w, f))
}

fn number(text: &str) -> Option<f64> {
    let plain = |b: u8| b.is_ascii_digit() || b"+-.eE".contains(&b);
    let number = Some(text).filter(|text| text.bytes().all(plain))?;
    number
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite())
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        _ if text.eq_ignore_ascii_case("true") => Some(true),
        _ if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// Reads a date in a form of ISO 8601 that the W3C describes, or as seconds since 1970.
fn date(text: &str) -> Option<i64> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) && text.len() > 4 {
        return text.parse::<i64>().ok()?.checked_mul(1000);
    }
    let (day, clock) = match text.split_once('T') {
        Some((day, clock)) => (day, Some(clock)),
        None => (text, None),
    };
    let mut fields = day.split('-');
    let year = digits(fields.next()?, 4)?;
    let month = fields.next().map_or(Some(1), |text| digits(text, 2))?;
    let day = fields.next().map_or(Some(1), |text| digits(text, 2))?;
    let complete = text.split('T').next()?.len() == 10;
    if fields.next().is_some() || (clock.is_some() && !complete) {
        return None;
    }
    let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
    let day = Date::from_calendar_date(year, month, u8::try_from(day).ok()?).ok()?;
    let midnight = day.midnight().assume_utc().unix_timestamp() * 1000;
    Some(midnight + clock.map_or(Some(0), time_of_day)?)
}

/// Reads `hh:mm[:ss[.fff]]` and `Z` or `±hh:mm`: milliseconds since midnight in UTC.
fn time_of_day(text: &str) -> Option<i64> {
    let (clock, offset) = match text.strip_suffix('Z') {
        Some(clock) => (clock, 0),
        None => {
            let at = text.rfind(['+', '-'])?;
            let (clock, zone) = text.split_at(at);
            let (hours, minutes) = zone.get(1..)?.split_once(':')?;
            let minutes = i64::from(digits(hours, 2)? * 60 + digits(minutes, 2)?);
            (
                clock,
                if zone.starts_with('-') {
                    -minutes
                } else {
                    minutes
                },
            )
        }
    };
    let mut fields = clock.split(':');
    let (hour, minute) = (digits(fields.next()?, 2)?, digits(fields.next()?, 2)?);
    let seconds = fields.next().unwrap_or("00");
    let (second, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
    let fraction_ok = !fraction.is_empty() && fraction.bytes().all(|b| b.is_ascii_digit());
    if fields.next().is_some() || !fraction_ok {
        return None;
    }
    let milli = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    let small = |number: i32| u8::try_from(number).ok();
    let time = Time::from_hms_milli(
        small(hour)?,
        small(minute)?,
        small(digits(second, 2)?)?,
        milli,
    );
    let (hour, minute, second, milli) = time.ok()?.as_hms_milli();
    let seconds = (i64::from(hour) * 60 + i64::from(minute) - offset) * 60 + i64::from(second);
    Some(seconds * 1000 + i64::from(milli))
}

fn digits(text: &str, length: usize) -> Option<i32> {
    let plain = text.len() == length && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

/// A range of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    address: IpAddr,
    /// The number of leading bits that count.
    prefix: u8,
}

impl Network {
    fn parse(text: &str) -> Option<Network> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => {
                let plain = !prefix.is_empty() && prefix.bytes().all(|b| b.is_ascii_digit());
                (address, Some(plain.then(|| prefix.parse().ok())??))
            }
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(longest);
        (prefix <= longest).then_some(Network { address, prefix })
    }

    fn has(&self, address: IpAddr) -> bool {
        // An IPv4 client of an IPv6 listener is an IPv4 client.
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let shift = 32 - u32::from(self.prefix);
                let differ = network.to_bits() ^ address.to_bits();
                differ.checked_shr(shift).unwrap_or(0) == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let shift = 128 - u32::from(self.prefix);
                let differ = network.to_bits() ^ address.to_bits();
                differ.checked_shr(shift).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}
