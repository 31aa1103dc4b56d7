//! Names of condition operators.

/// The type of the values that an operator compares, and the comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    StringEquals,
    StringEqualsIgnoreCase,
    StringLike,
    Numeric(Relation),
    Date(Relation),
    Bool,
    Binary,
    IpAddress,
    Arn,
    Null,
}

/// The relation of two values that an operator wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relation {
    Equals,
    LessThan,
    LessThanEquals,
    GreaterThan,
    GreaterThanEquals,
}

impl Relation {
    /// Returns true if `left` relates to `right` so.
    pub fn holds<T: PartialOrd>(self, left: T, right: T) -> bool {
        match self {
            Relation::Equals => left == right,
            Relation::LessThan => left < right,
            Relation::LessThanEquals => left <= right,
            Relation::GreaterThan => left > right,
            Relation::GreaterThanEquals => left >= right,
        }
    }
}

/// The treatment of a key with several values by an operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Set {
    Single,
    ForAll,
    ForAny,
}

/// An operator with its additions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operator {
    pub kind: Kind,
    /// The operator holds if the comparison does not.
    pub negated: bool,
    /// The operator holds for an absent key.
    pub if_exists: bool,
    pub set: Set,
}

/// The operators, and whether each is negated.
const OPERATORS: [(&str, Kind, bool); 27] = {
    use Relation::{Equals, GreaterThan, GreaterThanEquals, LessThan, LessThanEquals};
    [
        ("StringEquals", Kind::StringEquals, false),
        ("StringNotEquals", Kind::StringEquals, true),
        (
            "StringEqualsIgnoreCase",
            Kind::StringEqualsIgnoreCase,
            false,
        ),
        (
            "StringNotEqualsIgnoreCase",
            Kind::StringEqualsIgnoreCase,
            true,
        ),
        ("StringLike", Kind::StringLike, false),
        ("StringNotLike", Kind::StringLike, true),
        ("NumericEquals", Kind::Numeric(Equals), false),
        ("NumericNotEquals", Kind::Numeric(Equals), true),
        ("NumericLessThan", Kind::Numeric(LessThan), false),
        (
            "NumericLessThanEquals",
            Kind::Numeric(LessThanEquals),
            false,
        ),
        ("NumericGreaterThan", Kind::Numeric(GreaterThan), false),
        (
            "NumericGreaterThanEquals",
            Kind::Numeric(GreaterThanEquals),
            false,
        ),
        ("DateEquals", Kind::Date(Equals), false),
        ("DateNotEquals", Kind::Date(Equals), true),
        ("DateLessThan", Kind::Date(LessThan), false),
        ("DateLessThanEquals", Kind::Date(LessThanEquals), false),
        ("DateGreaterThan", Kind::Date(GreaterThan), false),
        (
            "DateGreaterThanEquals",
            Kind::Date(GreaterThanEquals),
            false,
        ),
        ("Bool", Kind::Bool, false),
        ("BinaryEquals", Kind::Binary, false),
        ("IpAddress", Kind::IpAddress, false),
        ("NotIpAddress", Kind::IpAddress, true),
        // In AWS the two pairs mean the same.
        ("ArnEquals", Kind::Arn, false),
        ("ArnLike", Kind::Arn, false),
        ("ArnNotEquals", Kind::Arn, true),
        ("ArnNotLike", Kind::Arn, true),
        ("Null", Kind::Null, false),
    ]
};

impl Operator {
    /// Reads `[ForAllValues:|ForAnyValue:]Name[IfExists]`. `Null` takes no addition.
    pub fn parse(name: &str) -> Option<Operator> {
        let (set, rest) = match name.split_once(':') {
            None => (Set::Single, name),
            Some(("ForAllValues", rest)) => (Set::ForAll, rest),
            Some(("ForAnyValue", rest)) => (Set::ForAny, rest),
            Some(_) => return None,
        };
        let (base, if_exists) = match rest.strip_suffix("IfExists") {
            Some(base) => (base, true),
            None => (rest, false),
        };
        let (_, kind, negated) = *OPERATORS.iter().find(|(known, ..)| *known == base)?;
        let bare = !if_exists && set == Set::Single;
        (kind != Kind::Null || bare).then_some(Operator {
            kind,
            negated,
            if_exists,
            set,
        })
    }
}
