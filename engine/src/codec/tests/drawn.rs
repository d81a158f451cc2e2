//! Values of any type that can be read, drawn from a seed: a source for `Deserialize` that makes up
//! what it is asked for. Of each enum it gives the variant that it has given least often, measured by
//! how many others were seen in it, so that all of them are seen without a list of samples. Every
//! other value leads to one that is missing.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::value::U32Deserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

/// An enum, by its name and its variants: names of types repeat.
type Enum = (&'static str, &'static [&'static str]);

/// What was given of each enum that was asked for, by variant.
pub(super) type Given = BTreeMap<Enum, Vec<Seen>>;

/// A variant that was given.
#[derive(Clone, Default)]
pub(super) struct Seen {
    /// How often, including values that were refused.
    times: usize,
    /// Whether it was in a value.
    is_read: bool,
    /// Variants of enums that were within it, in values.
    within: BTreeSet<(Enum, usize)>,
    /// Enums that were within it, including values that were refused.
    leads_to: BTreeSet<Enum>,
}

/// Texts: some of them are the names that reading requires somewhere.
const TEXTS: [&str; 7] =
    ["", "mam", "urn:throng:ctl#status", "romeo@localhost/\u{e9}", "<a b='c'/>\0", "Retry-After", "type"];

/// Variants around another one, from which on those without many others within are preferred.
const DEEP: usize = 8;

/// Variants in a value; one with more is refused.
const LARGE: usize = 200;

/// Draws a value, and notes which variants are in it. `None` if what was drawn is refused.
pub(super) fn drawn<T: DeserializeOwned>(seed: u64, given: &mut Given, bytes: &[&'static [u8]]) -> Option<T> {
    let all = unseen(given);
    let wanted = all.get((seed / 2) as usize % all.len().max(1)).copied().filter(|_| seed.is_multiple_of(2));
    let mut source = Source { state: seed, given, bytes, wanted, around: Vec::new(), drawn: Vec::new() };
    let value = T::deserialize(&mut source).ok();
    for path in source.drawn {
        let (last, around) = path.split_last().expect("a variant");
        let all = given.entry(last.0).or_insert_with(|| vec![Seen::default(); last.0.1.len()]);
        all[last.1].times += 1;
        all[last.1].is_read |= value.is_some();
        for (of, at) in around {
            let outer = &mut given.get_mut(of).expect("it was asked for before")[*at];
            outer.leads_to.insert(last.0);
            if value.is_some() {
                outer.within.insert(*last);
            }
        }
    }
    value
}

/// Variants that were not in any value so far.
fn unseen(given: &Given) -> Vec<(Enum, usize)> {
    let all = given.iter().flat_map(|(of, seen)| seen.iter().enumerate().map(move |(at, seen)| (*of, at, seen)));
    all.filter(|(.., seen)| !seen.is_read).map(|(of, at, _)| (of, at)).collect()
}

/// The same, by the names of enum and variant.
pub(super) fn missing(given: &Given) -> Vec<(&'static str, &'static str)> {
    unseen(given).into_iter().map(|((name, variants), at)| (name, variants[at])).collect()
}

struct Source<'a> {
    state: u64,
    given: &'a Given,
    /// Values of which only the bytes are in a written form.
    bytes: &'a [&'static [u8]],
    /// A variant that the value should have.
    wanted: Option<(Enum, usize)>,
    /// The variants around what is drawn next.
    around: Vec<(Enum, usize)>,
    /// All variants in the value, each after those around it.
    drawn: Vec<Vec<(Enum, usize)>>,
}

/// What was drawn is not what was asked for.
#[derive(Debug)]
struct Refused;

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("refused")
    }
}

impl std::error::Error for Refused {}

impl de::Error for Refused {
    fn custom<T: std::fmt::Display>(_: T) -> Refused {
        Refused
    }
}

impl Source<'_> {
    fn n(&mut self) -> u64 {
        let mut draw = super::samples::Draw(self.state);
        let drawn = draw.n();
        self.state = draw.0;
        drawn
    }

    fn below(&mut self, most: usize) -> usize {
        (self.n() % most as u64) as usize
    }
}

macro_rules! numbers {
    ($($fn:ident $visit:ident $of:ty,)+) => {
        $(fn $fn<V: Visitor<'static>>(self, visitor: V) -> Result<V::Value, Refused> {
            visitor.$visit(self.n() as $of)
        })+
    };
}

impl de::Deserializer<'static> for &mut Source<'_> {
    type Error = Refused;

    numbers! {
        deserialize_u8 visit_u8 u8,
        deserialize_u16 visit_u16 u16,
        deserialize_u32 visit_u32 u32,
        deserialize_u64 visit_u64 u64,
        deserialize_i8 visit_i8 i8,
        deserialize_i16 visit_i16 i16,
        deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64,
    }

    fn deserialize_any<V: Visitor<'static>>(self, _: V) -> Result<V::Value, Refused> {
        unreachable!("written forms do not describe themselves")
    }

    fn deserialize_bool<V: Visitor<'static>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_bool(self.n().is_multiple_of(2))
    }

    fn deserialize_str<V: Visitor<'static>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_borrowed_str(TEXTS[self.below(TEXTS.len())])
    }

    fn deserialize_string<V: Visitor<'static>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'static>>(self, visitor: V) -> Result<V::Value, Refused> {
        let at = self.below(self.bytes.len());
        visitor.visit_borrowed_bytes(self.bytes[at])
    }

    fn deserialize_byte_buf<V: Visitor<'static>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'static>>(self, visitor: V) -> Result<V::Value, Refused> {
        if self.n().is_multiple_of(2) { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit<V: Visitor<'static>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'static>>(self, _: &'static str, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'static>>(self, _: &'static str, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'static>>(self, visitor: V) -> Result<V::Value, Refused> {
        let len = self.below(3);
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_tuple<V: Visitor<'static>>(self, len: usize, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_seq(Parts(self, len))
    }

    fn deserialize_tuple_struct<V: Visitor<'static>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_map<V: Visitor<'static>>(self, visitor: V) -> Result<V::Value, Refused> {
        let len = self.below(3);
        visitor.visit_map(Parts(self, len))
    }

    fn deserialize_struct<V: Visitor<'static>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.deserialize_tuple(fields.len(), visitor)
    }

    fn deserialize_enum<V: Visitor<'static>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        visitor.visit_enum(Variant(self, (name, variants)))
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    forward_to_deserialize_any! { <V: Visitor<'static>> i128 u128 f32 f64 char identifier ignored_any }
}

/// The rest of a sequence.
struct Parts<'a, 's>(&'a mut Source<'s>, usize);

impl de::SeqAccess<'static> for Parts<'_, '_> {
    type Error = Refused;

    fn next_element_seed<S: DeserializeSeed<'static>>(&mut self, seed: S) -> Result<Option<S::Value>, Refused> {
        let Some(left) = self.1.checked_sub(1) else { return Ok(None) };
        self.1 = left;
        seed.deserialize(&mut *self.0).map(Some)
    }
}

impl de::MapAccess<'static> for Parts<'_, '_> {
    type Error = Refused;

    fn next_key_seed<S: DeserializeSeed<'static>>(&mut self, seed: S) -> Result<Option<S::Value>, Refused> {
        de::SeqAccess::next_element_seed(self, seed)
    }

    fn next_value_seed<S: DeserializeSeed<'static>>(&mut self, seed: S) -> Result<S::Value, Refused> {
        seed.deserialize(&mut *self.0)
    }
}

/// An enum of which a variant is drawn, or the content of the one that was.
struct Variant<'a, 's>(&'a mut Source<'s>, Enum);

impl Variant<'_, '_> {
    fn within<T>(self, draw: impl FnOnce(&mut Source<'_>) -> Result<T, Refused>) -> Result<T, Refused> {
        let drawn = draw(self.0);
        self.0.around.pop();
        drawn
    }
}

impl<'a, 's> de::EnumAccess<'static> for Variant<'a, 's> {
    type Error = Refused;
    type Variant = Variant<'a, 's>;

    fn variant_seed<S: DeserializeSeed<'static>>(self, seed: S) -> Result<(S::Value, Variant<'a, 's>), Refused> {
        let Variant(source, of) = self;
        let (first, count) = (source.below(of.1.len()), of.1.len());
        let seen = source.given.get(&of);
        // What is nested deeply comes to an end.
        let deep = source.around.len() > DEEP;
        let share = |at: usize| match seen.map(|seen| &seen[at]) {
            None => 0,
            Some(seen) if deep => seen.within.len(),
            Some(seen) => 1_000 * seen.times / (1 + seen.within.len()),
        };
        let leads = |at: &usize| match source.wanted.filter(|wanted| !deep && !source.around.contains(wanted)) {
            Some(wanted) if wanted.0 == of => *at == wanted.1,
            Some(wanted) => seen.is_some_and(|seen| seen[*at].leads_to.contains(&wanted.0)),
            None => false,
        };
        let all = (0..count).map(|n| (first + n) % count);
        let at = all.clone().find(leads).or(all.min_by_key(|at| share(*at))).expect("one");
        if source.drawn.len() >= LARGE {
            return Err(Refused);
        }
        source.around.push((of, at));
        source.drawn.push(source.around.clone());
        let index: U32Deserializer<Refused> = (at as u32).into_deserializer();
        Ok((seed.deserialize(index)?, Variant(source, of)))
    }
}

impl de::VariantAccess<'static> for Variant<'_, '_> {
    type Error = Refused;

    fn unit_variant(self) -> Result<(), Refused> {
        self.within(|_| Ok(()))
    }

    fn newtype_variant_seed<S: DeserializeSeed<'static>>(self, seed: S) -> Result<S::Value, Refused> {
        self.within(|source| seed.deserialize(source))
    }

    fn tuple_variant<V: Visitor<'static>>(self, len: usize, visitor: V) -> Result<V::Value, Refused> {
        self.within(|source| de::Deserializer::deserialize_tuple(source, len, visitor))
    }

    fn struct_variant<V: Visitor<'static>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.within(|source| de::Deserializer::deserialize_tuple(source, fields.len(), visitor))
    }
}
