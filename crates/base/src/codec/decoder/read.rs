//! Reads the pieces of which values consist.

use rmp::Marker;

use super::{Decoder, Malformed};

/// The deepest nesting. Types that contain themselves could be as deep as a message is long.
const MOST_DEPTH: u32 = 128;

pub(super) fn malformed<T>(why: &str) -> Result<T, Malformed> {
    Err(Malformed(why.to_owned()))
}

pub(super) fn unexpected<T>(found: Marker, expected: &str) -> Result<T, Malformed> {
    Err(Malformed(format!("{found:?} instead of {expected}")))
}

impl<'de> Decoder<'de> {
    pub(super) fn take(&mut self, count: usize) -> Result<&'de [u8], Malformed> {
        match self.left.split_at_checked(count) {
            Some((taken, left)) => {
                self.left = left;
                Ok(taken)
            }
            None => malformed("cut off"),
        }
    }

    pub(super) fn peek(&self) -> Result<Marker, Malformed> {
        match self.left.first() {
            Some(byte) => Ok(Marker::from_u8(*byte)),
            None => malformed("cut off"),
        }
    }

    pub(super) fn marker(&mut self) -> Result<Marker, Malformed> {
        self.read().map(|[byte]| Marker::from_u8(byte))
    }

    pub(super) fn read<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        match self.left.split_first_chunk() {
            Some((read, left)) => {
                self.left = left;
                Ok(*read)
            }
            None => malformed("cut off"),
        }
    }

    pub(super) fn u8(&mut self) -> Result<u8, Malformed> {
        self.read().map(u8::from_be_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Malformed> {
        self.read().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        self.read().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Malformed> {
        self.read().map(u64::from_be_bytes)
    }

    /// Returns an integer, or why the marker stands for none.
    pub(super) fn integer(&mut self) -> Result<Integer, Malformed> {
        use Integer::{Negative, Unsigned};
        let signed = |number: i64| match u64::try_from(number) {
            Ok(number) => Unsigned(number),
            Err(_) => Negative(number),
        };
        Ok(match self.marker()? {
            Marker::FixPos(number) => Unsigned(number.into()),
            Marker::U8 => Unsigned(self.u8()?.into()),
            Marker::U16 => Unsigned(self.u16()?.into()),
            Marker::U32 => Unsigned(self.u32()?.into()),
            Marker::U64 => Unsigned(self.u64()?),
            Marker::FixNeg(number) => Negative(number.into()),
            Marker::I8 => signed(self.u8()?.cast_signed().into()),
            Marker::I16 => signed(self.u16()?.cast_signed().into()),
            Marker::I32 => signed(self.u32()?.cast_signed().into()),
            Marker::I64 => signed(self.u64()?.cast_signed()),
            other => return unexpected(other, "an integer"),
        })
    }

    pub(super) fn float(&mut self) -> Result<f64, Malformed> {
        match self.marker()? {
            Marker::F32 => Ok(f32::from_bits(self.u32()?).into()),
            Marker::F64 => Ok(f64::from_bits(self.u64()?)),
            other => unexpected(other, "a number with a fraction"),
        }
    }

    pub(super) fn text(&mut self) -> Result<&'de str, Malformed> {
        let length = match self.marker()? {
            Marker::FixStr(length) => length.into(),
            Marker::Str8 => self.u8()?.into(),
            Marker::Str16 => self.u16()?.into(),
            Marker::Str32 => self.u32()? as usize,
            other => return unexpected(other, "text"),
        };
        let text = str::from_utf8(self.take(length)?);
        text.or_else(|_| malformed("text is not UTF-8"))
    }

    pub(super) fn bytes(&mut self) -> Result<&'de [u8], Malformed> {
        let length = match self.marker()? {
            Marker::Bin8 => self.u8()?.into(),
            Marker::Bin16 => self.u16()?.into(),
            Marker::Bin32 => self.u32()? as usize,
            other => return unexpected(other, "bytes"),
        };
        self.take(length)
    }

    /// Begins a list. Returns the number of its elements.
    pub(super) fn list(&mut self) -> Result<usize, Malformed> {
        let length = match self.marker()? {
            Marker::FixArray(length) => length.into(),
            Marker::Array16 => self.u16()?.into(),
            Marker::Array32 => self.u32()? as usize,
            other => return unexpected(other, "a list"),
        };
        self.deeper(length)
    }

    /// Begins a map. Returns the number of its entries.
    pub(super) fn map(&mut self) -> Result<usize, Malformed> {
        let length = match self.marker()? {
            Marker::FixMap(length) => length.into(),
            Marker::Map16 => self.u16()?.into(),
            Marker::Map32 => self.u32()? as usize,
            other => return unexpected(other, "a map"),
        };
        self.deeper(length)
    }

    pub(super) fn deeper(&mut self, length: usize) -> Result<usize, Malformed> {
        // Each element has one byte at least.
        if length > self.left.len() {
            return malformed("cut off");
        }
        self.depth += 1;
        match self.depth > MOST_DEPTH {
            true => malformed("nested too deep"),
            false => Ok(length),
        }
    }

    /// Ends a list or a map of which so many elements are left.
    pub(super) fn end(&mut self, left: usize) -> Result<(), Malformed> {
        self.depth -= 1;
        match left {
            0 => Ok(()),
            _ => malformed("more elements than expected"),
        }
    }

    pub(super) fn nil(&mut self) -> Result<(), Malformed> {
        match self.marker()? {
            Marker::Null => Ok(()),
            other => unexpected(other, "nothing"),
        }
    }

    /// Passes over a value, however deep it is.
    pub(super) fn skip(&mut self) -> Result<(), Malformed> {
        let mut values: u64 = 1;
        while values > 0 {
            values -= 1;
            let (bytes, elements) = match self.marker()? {
                Marker::Null | Marker::True | Marker::False => (0, 0),
                Marker::FixPos(_) | Marker::FixNeg(_) => (0, 0),
                Marker::U8 | Marker::I8 => (1, 0),
                Marker::U16 | Marker::I16 => (2, 0),
                Marker::U32 | Marker::I32 | Marker::F32 => (4, 0),
                Marker::U64 | Marker::I64 | Marker::F64 => (8, 0),
                Marker::FixStr(length) => (length.into(), 0),
                Marker::Str8 | Marker::Bin8 => (self.u8()?.into(), 0),
                Marker::Str16 | Marker::Bin16 => (self.u16()?.into(), 0),
                Marker::Str32 | Marker::Bin32 => (self.u32()? as usize, 0),
                Marker::FixArray(length) => (0, length.into()),
                Marker::Array16 => (0, self.u16()?.into()),
                Marker::Array32 => (0, self.u32()?.into()),
                Marker::FixMap(length) => (0, 2 * u64::from(length)),
                Marker::Map16 => (0, 2 * u64::from(self.u16()?)),
                Marker::Map32 => (0, 2 * u64::from(self.u32()?)),
                other => return unexpected(other, "a value"),
            };
            self.take(bytes)?;
            // Each of them reads a byte at least, so this ends.
            values += elements;
        }
        Ok(())
    }
}

pub(super) enum Integer {
    Unsigned(u64),
    Negative(i64),
}
