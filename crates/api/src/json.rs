//! Documents in JSON.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_path_to_error::{Error, Track};

/// The reason why a document cannot be read, and the field at which that is so.
pub type Unreadable = Error<serde_json::Error>;

/// The most characters that are shown of what is wrong with a document, and of the path of the
/// field.
const SHOWN_CHARS: usize = 300;
const SHOWN_OF_PATH: usize = 100;

/// Says what is wrong with a document, and at which field. Both may hold texts of the client in
/// full, so this shows them up to a length.
pub fn explain(error: &Unreadable) -> String {
    let why = shown(&error.inner().to_string(), SHOWN_CHARS);
    match error.path().iter().next() {
        Some(_) => format!("{}: {why}", shown(&error.path().to_string(), SHOWN_OF_PATH)),
        None => why,
    }
}

/// Returns a text, or only its beginning if it has more than `most` characters.
pub fn shown(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", text.split_at(end).0),
        None => text.to_owned(),
    }
}

/// Reads a document. The error names the field at which reading it failed.
///
/// Only objects are read as structs, at every depth. Derived readers also take a list of the
/// fields' values, in the order of the source.
pub fn read<'de, T: Deserialize<'de>>(text: &'de [u8]) -> Result<T, Unreadable> {
    let mut document = serde_json::Deserializer::from_slice(text);
    let mut track = Track::new();
    let tracked = serde_path_to_error::Deserializer::new(&mut document, &mut track);
    let read = T::deserialize(Strict(tracked));
    let read = read.and_then(|read| document.end().map(|()| read));
    read.map_err(|error| Error::new(track.path(), error))
}

/// A reader that takes only objects for structs, also in the contents of what it reads. The
/// contents of enums and of values of any type are read as they are: no request has structs there.
struct Strict<T>(T);

macro_rules! forward {
    ($($read:ident)*) => {$(
        fn $read<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
            self.0.$read(visitor)
        }
    )*};
}

macro_rules! forward_strict {
    ($($read:ident($($argument:ident: $of:ty),*))*) => {$(
        fn $read<V: Visitor<'de>>(
            self,
            $($argument: $of,)*
            visitor: V,
        ) -> Result<V::Value, Self::Error> {
            self.0.$read($($argument,)* Strict(visitor))
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<D> {
    type Error = D::Error;

    forward! {
        deserialize_any deserialize_bool deserialize_char deserialize_str deserialize_string
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64 deserialize_bytes deserialize_byte_buf deserialize_unit
        deserialize_identifier deserialize_ignored_any
    }

    forward_strict! {
        deserialize_option()
        deserialize_seq()
        deserialize_map()
        deserialize_tuple(len: usize)
        deserialize_tuple_struct(name: &'static str, len: usize)
        deserialize_newtype_struct(name: &'static str)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_unit_struct(name, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(Members(visitor))
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Strict<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, some: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Strict(some))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Strict(inner))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Strict(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Strict(members))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Strict<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Strict(deserializer))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Strict(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Strict(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

/// Reads a struct from the members of an object, and from nothing else.
struct Members<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for Members<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Strict(members))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Tree {
        name: Option<Name>,
        count: u32,
        pair: (u8, bool),
        kind: Kind,
        only: Option<Box<Tree>>,
        list: Vec<Tree>,
        named: BTreeMap<String, Tree>,
    }

    #[derive(Deserialize)]
    struct Name(String);

    #[derive(Default, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        #[default]
        Oak,
        Elm,
    }

    fn refusal(text: &str) -> String {
        explain(&read::<Tree>(text.as_bytes()).err().unwrap())
    }

    #[test]
    fn document_is_read_in_full() {
        let text = r#"{"name":"a","count":3,"pair":[1,true],"kind":"elm","only":{"count":1},
            "list":[{"list":[{"count":2}]}],"named":{"x":{"name":null}}}"#;
        let read = read::<Tree>(text.as_bytes()).unwrap();
        assert_eq!(read.name.unwrap().0, "a");
        assert_eq!((read.count, read.pair), (3, (1, true)));
        assert!(matches!(read.kind, Kind::Elm));
        assert_eq!(read.only.unwrap().count, 1);
        assert_eq!(read.list[0].list[0].count, 2);
        assert!(read.named["x"].name.is_none());
    }

    #[test]
    fn list_of_values_is_no_object_at_any_depth() {
        for (text, path) in [
            ("[]", ""),
            (r#"{"only":[]}"#, "only: "),
            (r#"{"list":[{}, []]}"#, "list[1]: "),
            (r#"{"named":{"x":[]}}"#, "named.x: "),
            (
                r#"{"list":[{"only":{"list":[[]]}}]}"#,
                "list[0].only.list[0]: ",
            ),
        ] {
            let told = refusal(text);
            let begin = format!("{path}invalid type: sequence, expected an object");
            assert!(told.starts_with(&begin), "{text}: {told}");
        }
    }

    #[test]
    fn long_texts_of_the_client_are_cut() {
        let long = "\u{e4}".repeat(20_000);
        for text in [
            format!(r#"{{"{long}":1}}"#),
            format!(r#"{{"kind":"{long}"}}"#),
        ] {
            let told = refusal(&text);
            assert!(told.chars().count() < 500 && told.contains("..."), "{told}");
        }
    }

    #[test]
    fn errors_name_the_field() {
        for (text, begin) in [
            (
                r#"{"list":[{"count":"x"}]}"#,
                "list[0].count: invalid type: string",
            ),
            (
                r#"{"only":{"kind":"ash"}}"#,
                "only.kind: unknown variant `ash`",
            ),
            (
                r#"{"only":{"cuont":1}}"#,
                "only.cuont: unknown field `cuont`",
            ),
            (
                r#"{"only":{"count":1,"count":1}}"#,
                "only: duplicate field `count`",
            ),
            ("{} {}", "trailing characters"),
        ] {
            let told = refusal(text);
            assert!(told.starts_with(begin), "{text}: {told}");
        }
    }
}
