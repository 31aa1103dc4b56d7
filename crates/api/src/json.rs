//! Documents in JSON.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};

/// An object of a document. Derived readers also take a list of the fields' values, in the order of
/// the source.
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<T>, D::Error> {
        struct Members<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }
        deserializer
            .deserialize_map(Members(PhantomData))
            .map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct One {
        name: String,
    }

    #[test]
    fn list_of_values_is_no_object() {
        let read = |text: &str| serde_json::from_str::<Object<One>>(text);
        assert_eq!(read(r#"{"name":"a"}"#).unwrap().0.name, "a");
        let refused = read(r#"["a"]"#).err().unwrap().to_string();
        assert!(refused.contains("an object"), "{refused}");
    }
}
