//! A serde deserializer of MessagePack from a slice.
//!
//! It reads what the type asks for, and nothing else. The deserializer of `rmp_serde` reads any
//! kind of value, and the compiler translates all of that for each type.

use std::fmt;

mod access;
mod read;

use rmp::Marker;
use serde::de::{self, IntoDeserializer, Visitor};

use access::{Elements, Variant};
use read::{Integer, malformed, unexpected};

/// Decodes values from the beginning of a slice.
pub(super) struct Decoder<'de> {
    left: &'de [u8],
    depth: u32,
}

/// The reason why bytes are not what a type expects.
#[derive(Debug)]
pub(super) struct Malformed(pub String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}

impl de::Error for Malformed {
    fn custom<T: fmt::Display>(message: T) -> Malformed {
        Malformed(message.to_string())
    }
}

impl<'de> Decoder<'de> {
    pub fn new(bytes: &'de [u8]) -> Decoder<'de> {
        Decoder {
            left: bytes,
            depth: 0,
        }
    }

    /// Returns true if all bytes were read.
    pub fn is_at_end(&self) -> bool {
        self.left.is_empty()
    }
}

/// Implements the reading of integers: the visitor checks the range.
macro_rules! integers {
    ($($name:ident)*) => {$(
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
            match self.integer()? {
                Integer::Unsigned(number) => visitor.visit_u64(number),
                Integer::Negative(number) => visitor.visit_i64(number),
            }
        }
    )*};
}

/// Implements the reading of what another method reads, too.
macro_rules! alike {
    ($($name:ident as $other:ident)*) => {$(
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
            self.$other(visitor)
        }
    )*};
}

impl<'de> de::Deserializer<'de> for &mut Decoder<'de> {
    type Error = Malformed;

    integers! {
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
    }

    alike! {
        deserialize_f32 as deserialize_f64
        deserialize_char as deserialize_str
        deserialize_string as deserialize_str
        deserialize_identifier as deserialize_str
        deserialize_byte_buf as deserialize_bytes
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Malformed> {
        malformed("the type does not say what it expects")
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        self.skip()?;
        visitor.visit_unit()
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        match self.marker()? {
            Marker::True => visitor.visit_bool(true),
            Marker::False => visitor.visit_bool(false),
            other => unexpected(other, "true or false"),
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        visitor.visit_f64(self.float()?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        visitor.visit_borrowed_str(self.text()?)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        visitor.visit_borrowed_bytes(self.bytes()?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        match self.peek()? {
            Marker::Null => {
                self.nil()?;
                visitor.visit_none()
            }
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        self.nil()?;
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Malformed> {
        let left = self.list()?;
        self.end(left)?;
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Malformed> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        let left = self.list()?;
        let mut elements = Elements {
            decoder: self,
            left,
        };
        let value = visitor.visit_seq(&mut elements)?;
        let left = elements.left;
        self.end(left)?;
        Ok(value)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Malformed> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Malformed> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        let left = self.map()?;
        let mut entries = Elements {
            decoder: self,
            left,
        };
        let value = visitor.visit_map(&mut entries)?;
        let left = entries.left;
        self.end(left)?;
        Ok(value)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Malformed> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Malformed> {
        // A variant without content is its name. Another one is a map with one entry.
        if let Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 = self.peek()? {
            return visitor.visit_enum(self.text()?.into_deserializer());
        }
        let variants = self.map()?;
        let value = visitor.visit_enum(Variant(self))?;
        self.end(variants.abs_diff(1))?;
        Ok(value)
    }
}

#[cfg(test)]
mod tests;
