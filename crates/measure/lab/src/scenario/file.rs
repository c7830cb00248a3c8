// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The TOML form of a scenario.
use super::{LinkWords, Word, Words};
use alcc_units::nearest;
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor, value};
use std::fmt;
use std::marker::PhantomData;
use toml::Spanned;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct File {
    link: Links,
    up: Option<Text>,
    delay: Option<Text>,
    queue: Option<Text>,
    queue_up: Option<Text>,
    loss: Option<Text>,
    loss_up: Option<Text>,
    step: Texts,
    steps: Option<Text>,
    repeat: Option<Text>,
    reorder: Option<Text>,
    rtt: Option<Text>,
    flow: Texts,
    duration: Option<Text>,
    seed: Option<Text>,
    start: Option<Text>,
    settle: Option<Text>,
    lateness: Option<Text>,
    jitter: Option<Text>,
    wake: Option<Text>,
    max_events: Option<Text>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct Table {
    rate: Option<Text>,
    up: Option<Text>,
    delay: Option<Text>,
    queue: Option<Text>,
    queue_up: Option<Text>,
    loss: Option<Text>,
    loss_up: Option<Text>,
    step: Texts,
    steps: Option<Text>,
    repeat: Option<Text>,
    reorder: Option<Text>,
}

type Text = Spanned<Value>;

/// A string or a number, as it would be typed on the command line.
struct Value(String);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Typed;
        impl Visitor<'_> for Typed {
            type Value = Value;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string such as \"40ms\" or a number")
            }
            fn visit_str<E>(self, text: &str) -> Result<Value, E> {
                Ok(Value(text.to_owned()))
            }
            fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
                Ok(Value(number.to_string()))
            }
            fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
                Ok(Value(number.to_string()))
            }
        }
        from.deserialize_any(Typed)
    }
}

/// One string or a list of them.
#[derive(Default)]
struct Texts(Vec<Text>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let list = Spanned::<OneOr<Text>>::deserialize(from)?;
        let span = list.span();
        Ok(Self(match list.into_inner() {
            OneOr::One(text) => vec![Spanned::new(span, Value(text))],
            OneOr::List(list) => list,
        }))
    }
}

/// A string, or a list of `T`.
enum OneOr<T> {
    One(String),
    List(Vec<T>),
}

/// What may stand there besides one string, for errors.
trait Listed {
    const EXPECTED: &str;
}

impl Listed for Text {
    const EXPECTED: &str = "a string or a list of strings";
}

impl Listed for Table {
    const EXPECTED: &str = "link = \"12mbit\", link = \"trace-file\" or [[link]] tables";
}

impl<'de, T: Deserialize<'de> + Listed> Deserialize<'de> for OneOr<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Typed<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de> + Listed> Visitor<'de> for Typed<T> {
            type Value = OneOr<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(T::EXPECTED)
            }
            fn visit_str<E>(self, text: &str) -> Result<OneOr<T>, E> {
                Ok(OneOr::One(text.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<OneOr<T>, A::Error> {
                let list = value::SeqAccessDeserializer::new(list);
                Vec::deserialize(list).map(OneOr::List)
            }
        }
        from.deserialize_any(Typed(PhantomData))
    }
}

/// One rate or trace, or `[[link]]` tables.
#[derive(Default)]
struct Links(Vec<(Option<Text>, Option<Table>)>);

impl<'de> Deserialize<'de> for Links {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let links = Spanned::<OneOr<Table>>::deserialize(from)?;
        let span = links.span();
        Ok(Self(match links.into_inner() {
            OneOr::One(text) => vec![(Some(Spanned::new(span, Value(text))), None)],
            OneOr::List(tables) => {
                let tables = tables.into_iter().map(|table| (None, Some(table)));
                tables.collect()
            }
        }))
    }
}

/// The nearest key before all of them.
fn unknown_key(why: &str) -> Option<String> {
    let rest = why.strip_prefix("unknown field `")?;
    let (found, known) = rest.split_once("`, expected ")?;
    let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    let near = nearest(found, known.iter().copied());
    let near = near.map_or_else(String::new, |near| format!(" (did you mean {near}?)"));
    Some(format!(
        "no key '{found}'{near}: there are {}",
        known.join(", ")
    ))
}

/// What the file says; `name` is its name for errors.
pub(super) fn parse(text: &str, name: &str) -> Result<Words, String> {
    let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    let file: File = toml::from_str(text).map_err(|e| {
        let at = e.span().map_or(0, |span| span.start);
        let why: Vec<&str> = e.message().lines().collect();
        let why = why.join("; ");
        let why = unknown_key(&why).unwrap_or(why);
        format!("{name}:{}: {why}", line(at))
    })?;
    let word = |key: &str, text: Text| Word {
        place: format!("{name}:{}: {key}", line(text.span().start)),
        text: text.into_inner().0,
    };
    let maybe = |key: &str, text: Option<Text>| text.map(|text| word(key, text));
    let several = |key: &str, texts: Texts| texts.0.into_iter().map(|t| word(key, t)).collect();
    let link = |(one, table): (Option<Text>, Option<Table>)| {
        let table = table.unwrap_or_default();
        LinkWords {
            rate: maybe("link", one).or_else(|| maybe("rate", table.rate)),
            up: maybe("up", table.up),
            delay: maybe("delay", table.delay),
            queue: maybe("queue", table.queue),
            queue_up: maybe("queue-up", table.queue_up),
            loss: maybe("loss", table.loss),
            loss_up: maybe("loss-up", table.loss_up),
            step: several("step", table.step),
            steps: maybe("steps", table.steps),
            repeat: maybe("repeat", table.repeat),
            reorder: maybe("reorder", table.reorder),
        }
    };
    Ok(Words {
        link: file.link.0.into_iter().map(link).collect(),
        each: LinkWords {
            rate: None,
            up: maybe("up", file.up),
            delay: maybe("delay", file.delay),
            queue: maybe("queue", file.queue),
            queue_up: maybe("queue-up", file.queue_up),
            loss: maybe("loss", file.loss),
            loss_up: maybe("loss-up", file.loss_up),
            step: several("step", file.step),
            steps: maybe("steps", file.steps),
            repeat: maybe("repeat", file.repeat),
            reorder: maybe("reorder", file.reorder),
        },
        rtt: maybe("rtt", file.rtt),
        flow: several("flow", file.flow),
        duration: maybe("duration", file.duration),
        seed: maybe("seed", file.seed),
        start: maybe("start", file.start),
        settle: maybe("settle", file.settle),
        lateness: maybe("lateness", file.lateness),
        jitter: maybe("jitter", file.jitter),
        wake: maybe("wake", file.wake),
        max_events: maybe("max-events", file.max_events),
        folder: None,
    })
}
