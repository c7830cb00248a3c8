// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of a scenario: one declaration for the command line and for TOML files. A field here
//! is an option with its help, a key, and takes part in overriding one source by another.
use std::fmt::Display;
use toml::Spanned;
use toml::de::DeValue;

/// A value as written, and its location.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Value {
    /// The text as written.
    pub text: String,
    /// For an option: `--rtt`. For a file: its name, line and key.
    pub location: String,
}

impl Value {
    /// A value of an option of the command line.
    pub fn option(name: &str, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            location: format!("--{name}"),
        }
    }

    /// True if it is from the command line and not from a file.
    pub(super) fn is_option(&self) -> bool {
        self.location.starts_with("--")
    }

    /// An error message that begins with the location of this value.
    pub fn error(&self, why: impl Display) -> String {
        format!("{}: {why}", self.location)
    }

    /// Parses the text.
    ///
    /// # Errors
    /// One line: the location, what was found, what would be right.
    pub fn parse<T: std::str::FromStr<Err: Display>>(&self) -> Result<T, String> {
        let want = |e: T::Err| {
            let mut why = alcc_units::want_number(&e.to_string());
            if super::parts(&self.text, "value").is_ok_and(|all| all.len() > 1) {
                why += "; 'alcc-lab compare' and 'alcc-lab sweep' take lists";
            }
            let quoted = format!("'{}'", self.text);
            if why.contains(&quoted) {
                self.error(why)
            } else {
                self.error(format!("{quoted}: {why}"))
            }
        };
        self.text.parse().map_err(want)
    }
}

/// A TOML document: its name, and its text to count lines in.
pub(super) struct Source<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a str,
}

impl Source<'_> {
    /// Location of the byte `at`: `name:line`.
    pub(super) fn location(&self, at: usize) -> String {
        let before = &self.text[..at.min(self.text.len())];
        format!("{}:{}", self.name, before.matches('\n').count() + 1)
    }

    /// The value of `key` as it would be typed on the command line, if it is a string or a number.
    fn scalar(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Option<Value> {
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(n) => i128::from_str_radix(n.as_str(), n.radix())
                .ok()?
                .to_string(),
            DeValue::Float(n) => n.as_str().parse::<f64>().ok()?.to_string(),
            _ => return None,
        };
        let location = format!("{}: {key}", self.location(value.span().start));
        Some(Value { text, location })
    }

    /// The error for a value of the wrong kind.
    fn expected(&self, key: &str, value: &Spanned<DeValue<'_>>, want: &str) -> String {
        let location = self.location(value.span().start);
        let found = value.get_ref().type_str();
        format!("{location}: {key}: found a value of type {found}, expected {want}")
    }

    /// Refuses an empty list, because it is unlikely to stand for the default.
    fn not_empty(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        is_empty: bool,
    ) -> Result<(), String> {
        if !is_empty {
            return Ok(());
        }
        let location = self.location(value.span().start);
        Err(format!(
            "{location}: {key}: found an empty list, expected at least one value: leave {key} out for the default"
        ))
    }
}

/// A field of the options.
pub(super) trait Field {
    /// Sets the value, or adds one to a list.
    fn add(&mut self, value: Value);

    /// Reads the value of `key` in a file.
    fn read(
        &mut self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        source: &Source<'_>,
    ) -> Result<(), String>;

    /// Values of `other` take precedence.
    fn overridden_by(self, other: Self) -> Self
    where
        Self: Sized;

    /// Visits every value, in order.
    fn for_each(&mut self, visit: &mut dyn FnMut(&mut Value));
}

impl Field for Option<Value> {
    fn add(&mut self, value: Value) {
        *self = Some(value);
    }

    fn read(
        &mut self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        source: &Source<'_>,
    ) -> Result<(), String> {
        let want = "a string such as \"40ms\" or a number";
        let scalar = source.scalar(key, value);
        self.add(scalar.ok_or_else(|| source.expected(key, value, want))?);
        Ok(())
    }

    fn overridden_by(self, other: Self) -> Self {
        other.or(self)
    }

    fn for_each(&mut self, visit: &mut dyn FnMut(&mut Value)) {
        self.iter_mut().for_each(visit);
    }
}

/// A list of values.
impl Field for Vec<Value> {
    fn add(&mut self, value: Value) {
        self.push(value);
    }

    fn read(
        &mut self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        source: &Source<'_>,
    ) -> Result<(), String> {
        let want = "a string or a list of strings";
        let several: Vec<_> = match value.get_ref() {
            DeValue::Array(several) => several.iter().collect(),
            DeValue::String(_) => vec![value],
            _ => return Err(source.expected(key, value, want)),
        };
        source.not_empty(key, value, several.is_empty())?;
        for one in several {
            let scalar = source.scalar(key, one);
            self.add(scalar.ok_or_else(|| source.expected(key, one, want))?);
        }
        Ok(())
    }

    fn overridden_by(self, other: Self) -> Self {
        if other.is_empty() { self } else { other }
    }

    fn for_each(&mut self, visit: &mut dyn FnMut(&mut Value)) {
        self.iter_mut().for_each(visit);
    }
}

impl Field for Vec<Link> {
    fn add(&mut self, value: Value) {
        self.push(value.into());
    }

    fn read(
        &mut self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        source: &Source<'_>,
    ) -> Result<(), String> {
        let want = "link = \"12mbit\", link = \"trace-file\" or [[link]] tables";
        let wrong = || source.expected(key, value, want);
        if value.get_ref().is_str() {
            self.extend(source.scalar(key, value).map(Link::from));
            return Ok(());
        }
        let several = value.get_ref().as_array().ok_or_else(wrong)?;
        source.not_empty(key, value, several.is_empty())?;
        for one in several {
            let table = one.get_ref().as_table().ok_or_else(wrong)?;
            let mut link = Link::default();
            super::file::fill(&mut link, table, source)?;
            self.push(link);
        }
        Ok(())
    }

    fn overridden_by(self, other: Self) -> Self {
        if other.is_empty() { self } else { other }
    }

    fn for_each(&mut self, visit: &mut dyn FnMut(&mut Value)) {
        for link in self {
            for key in Link::keys() {
                if let Some(field) = link.field(&key) {
                    field.for_each(visit);
                }
            }
        }
    }
}

/// Fields by their keys in a file.
pub(super) trait Fields {
    /// All keys, in order.
    fn keys() -> Vec<String>;

    /// The field with this key.
    fn field(&mut self, key: &str) -> Option<&mut dyn Field>;
}

/// The name of a field in a file and on the command line.
fn key(field: &str) -> String {
    field.replace('_', "-")
}

/// Declares a struct of options. A field is its help, its name, what its value is called, and its
/// type. After `..` stands a struct whose fields are fields of this one, too.
macro_rules! options {
    (
        $(#[$doc:meta])*
        pub struct $Name:ident {
            $($(#[$help:meta])* $field:ident $value:literal: $Type:ty,)*
            $(
                ..
                $(#[$rest_doc:meta])* $rest:ident: $Rest:ty,
                $($(#[$more_help:meta])* $more:ident $more_value:literal: $More:ty,)*
            )?
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug, Default)]
        #[cfg_attr(feature = "clap", derive(clap::Args))]
        pub struct $Name {
            $(
                $(#[$help])*
                #[cfg_attr(feature = "clap", arg(long, value_name = $value))]
                pub $field: $Type,
            )*
            $(
                $(#[$rest_doc])*
                #[cfg_attr(feature = "clap", command(flatten))]
                pub $rest: $Rest,
                $(
                    $(#[$more_help])*
                    #[cfg_attr(feature = "clap", arg(long, value_name = $more_value))]
                    pub $more: $More,
                )*
            )?
        }

        impl Fields for $Name {
            fn keys() -> Vec<String> {
                let all = [$(key(stringify!($field))),*].into_iter();
                $(
                    let all = all.chain(<$Rest>::keys()).chain([$(key(stringify!($more))),*]);
                )?
                all.collect()
            }

            fn field(&mut self, name: &str) -> Option<&mut dyn Field> {
                $(
                    if name == key(stringify!($field)) {
                        return Some(&mut self.$field);
                    }
                )*
                $(
                    $(
                        if name == key(stringify!($more)) {
                            return Some(&mut self.$more);
                        }
                    )*
                    if let Some(field) = self.$rest.field(name) {
                        return Some(field);
                    }
                )?
                None
            }
        }

        impl $Name {
            /// Values of `other` take precedence. Its links, flows and steps replace those of
            /// `self`.
            #[must_use]
            pub fn overridden_by(self, other: Self) -> Self {
                Self {
                    $($field: Field::overridden_by(self.$field, other.$field),)*
                    $(
                        $rest: self.$rest.overridden_by(other.$rest),
                        $($more: Field::overridden_by(self.$more, other.$more),)*
                    )?
                }
            }
        }
    };
}

options! {
    /// The options of a scenario. `None` and empty lists stand for the default.
    pub struct ScenarioOptions {
        /// Bottleneck: a trace, or a rate such as 12mbit [default: 12mbit]
        ///
        /// Several are a chain in this order.
        link "TRACE|RATE": Vec<Link>,
        ..
        /// Defaults for links without a value of their own.
        defaults: LinkOptions,
        /// Round-trip time without queueing, half in each direction [default: 40ms]
        rtt "T": Option<Value>,
        /// Flow, such as cubic or 2*verus:r=4@5s; may be repeated [default: budget/over=cubic]
        flow "FLOW": Vec<Value>,
        /// Length of the measurement [default: 60s]
        ///
        /// The window begins with the first full-size packet at the bottleneck.
        duration "T": Option<Value>,
        /// Seed of all random numbers [default: 1]
        ///
        /// Random are losses, some queues, synthetic traces, the phases of flows, and the start
        /// within a recorded trace.
        seed "N": Option<Value>,
        /// Start within recorded traces [default: 0s with seed 1, random with others]
        ///
        /// On a trace with a drop-tail queue nothing else is random.
        #[cfg_attr(feature = "clap", arg(hide_short_help = true))]
        start "T": Option<Value>,
        /// Exclude this time from jain_1s, the fairness of single seconds [default: 20s]
        #[cfg_attr(feature = "clap", arg(hide_short_help = true))]
        settle "T": Option<Value>,
        /// Part of the window whose throughputs the summary shows, such as 30s-60s; may be repeated
        ///
        /// In whole seconds.
        #[cfg_attr(feature = "clap", arg(hide_short_help = true))]
        phase "FROM-TO": Vec<Value>,
        /// Flows over TCP: smallest delay with which TCP's counters are read [default: 50us]
        #[cfg_attr(feature = "clap", arg(hide_short_help = true))]
        lateness "T": Option<Value>,
        /// Flows over TCP: largest random addition to --lateness [default: 100us]
        ///
        /// It is distributed uniformly.
        #[cfg_attr(feature = "clap", arg(hide_short_help = true))]
        jitter "T": Option<Value>,
        /// Flows over TCP: time until a program that may write again does so [default: 200us]
        #[cfg_attr(feature = "clap", arg(hide_short_help = true))]
        wake "T": Option<Value>,
        /// Stop after this many events [default: 10000000000]
        ///
        /// Lost packets count as events.
        #[cfg_attr(feature = "clap", arg(hide_short_help = true))]
        max_events "N": Option<Value>,
    }
}

options! {
    /// The options of a link.
    pub struct LinkOptions {
        /// Bottleneck of the reverse direction: a trace or a rate [default: unlimited]
        up "TRACE|RATE": Option<Value>,
        /// Propagation delay of each link, each direction [default: half of --rtt, divided among the links]
        delay "T": Option<Value>,
        /// Queue of the bottleneck, see 'alcc-lab list' [default: droptail:bytes=2000000]
        queue "Q": Option<Value>,
        /// Queue of the reverse direction [default: as --queue]
        #[cfg_attr(feature = "clap", arg(hide_short_help = true))]
        queue_up "Q": Option<Value>,
        /// Probability of random loss towards the receivers: 1% or 0.01 [default: 0]
        loss "P": Option<Value>,
        /// Probability of random loss in the reverse direction, of acknowledgements [default: 0]
        #[cfg_attr(feature = "clap", arg(hide_short_help = true))]
        loss_up "P": Option<Value>,
        /// Radio link behind the bottleneck, such as harq:errors=0.1; may be repeated
        ///
        /// See 'alcc-lab list' [default: that of a synthetic trace].
        radio "RADIO": Vec<Value>,
        /// Radio link of the reverse direction [default: as --radio]
        #[cfg_attr(feature = "clap", arg(hide_short_help = true))]
        radio_up "RADIO": Vec<Value>,
        /// Change of the links, such as 5s:rate=20mbit,delay=50ms; may be repeated
        ///
        /// Values that are not named stay. loss= applies to both directions; loss-up= overrides it
        /// for the reverse one.
        step "STEP": Vec<Value>,
        /// Changes from a CSV file, or drawn at random
        ///
        /// The columns of the file are seconds,mbps,delay_ms,loss,loss_up. Random changes, drawn
        /// with the seed, are written every=5s,rate=10mbit..100mbit,delay=5ms..50ms,loss=0..1%.
        #[cfg_attr(feature = "clap", arg(hide_short_help = true))]
        steps "FILE|DRAW": Option<Value>,
        /// Random outages of a link of constant rate, such as every=60s..180s,length=500ms..2s
        ///
        /// 'every' is the time from the end of one outage to the beginning of the next.
        #[cfg_attr(feature = "clap", arg(hide_short_help = true))]
        outages "DRAW": Option<Value>,
        /// Restart the schedule of changes after this time
        #[cfg_attr(feature = "clap", arg(hide_short_help = true))]
        repeat "T": Option<Value>,
        /// Let packets overtake others when the delay becomes shorter
        #[cfg_attr(
            feature = "clap",
            arg(num_args = 0..=1, require_equals = true, default_missing_value = "yes")
        )]
        #[cfg_attr(feature = "clap", arg(hide_short_help = true))]
        reorder "yes|no": Option<Value>,
    }
}

options! {
    /// The options of a comparison. `None` and empty lists stand for the default.
    pub struct StudyOptions {
        /// FLOWs to compare [default: see below]
        schemes "A,B": Vec<Value>,
        /// Cross traffic: a FLOW beside each scheme, such as 2*cubic@10s
        cross "FLOW": Option<Value>,
        /// Round-trip time without queueing [default: 40ms]
        ///
        /// Half of it is in each direction. With several values, each trace is run with each.
        rtt "T,T": Vec<Value>,
        /// Queue of the bottlenecks [default: droptail:bytes=2000000]
        ///
        /// With several values, each trace is run with each.
        queue "Q,Q": Vec<Value>,
        /// Probability of random loss towards the receivers: 1% or 0.01 [default: 0]
        loss "P": Option<Value>,
        /// Probability of random loss in the reverse direction, of acknowledgements [default: 0]
        #[cfg_attr(feature = "clap", arg(hide_short_help = true))]
        loss_up "P": Option<Value>,
        /// Reverse direction: a rate, a trace, or 'partner' (the trace NAME.up that belongs to
        /// NAME.down) [default: 12mbit]
        ///
        /// For a trace NAME.up, 'partner' is NAME.down.
        up "RATE|TRACE|partner": Option<Value>,
        /// Length of each measurement [default: 60s]
        ///
        /// The window starts with the first full-size packet at the bottleneck.
        duration "T": Option<Value>,
        /// Repetitions of each trace and scheme [default: 1 with --sim, 3 with --emu]
        ///
        /// With --native the default is 5. Each repetition has the next seed. After the first one, a recorded trace begins at a random place,
        /// which is the same for every scheme. In the emulator the order of the schemes alternates.
        runs "N": Option<Value>,
        /// Seed of all random numbers of the links and of synthetic traces [default: 1]
        seed "N": Option<Value>,
        /// With --sim: offset in the trace at which every run begins [default: 0s]
        #[cfg_attr(feature = "clap", arg(hide_short_help = true))]
        start "T": Option<Value>,
        /// Exclude this time from the fairness of several flows [default: 20s]
        #[cfg_attr(feature = "clap", arg(hide_short_help = true))]
        settle "T": Option<Value>,
    }
}

/// The text of a study file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Study {
    /// Trace files, relative to the file, synthetic scenarios, and rates.
    pub traces: Vec<Value>,
    /// The other keys.
    pub options: StudyOptions,
}

impl Fields for Study {
    fn keys() -> Vec<String> {
        let mut all = vec!["traces".to_owned()];
        all.extend(StudyOptions::keys());
        all
    }

    fn field(&mut self, name: &str) -> Option<&mut dyn Field> {
        match name {
            "traces" => Some(&mut self.traces),
            name => self.options.field(name),
        }
    }
}

/// One link: in a file a value of `link` or a table `[[link]]`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Link {
    /// A trace or a rate: in a table `rate`.
    pub rate: Option<Value>,
    /// The other options.
    pub options: LinkOptions,
}

impl From<Value> for Link {
    fn from(rate: Value) -> Self {
        Self {
            rate: Some(rate),
            options: LinkOptions::default(),
        }
    }
}

impl Fields for Link {
    fn keys() -> Vec<String> {
        let mut all = vec!["rate".to_owned()];
        all.extend(LinkOptions::keys());
        all
    }

    fn field(&mut self, name: &str) -> Option<&mut dyn Field> {
        match name {
            "rate" => Some(&mut self.rate),
            name => self.options.field(name),
        }
    }
}

/// Adds a value to the field with this key.
fn add<F: Fields>(fields: &mut F, key: &str, value: Value) -> Result<(), String> {
    match fields.field(key) {
        Some(field) => field.add(value),
        None => return Err(value.error(super::file::unknown_key(key, &F::keys()))),
    }
    Ok(())
}

impl Link {
    /// Adds a value by its key, as in a table `[[link]]`.
    ///
    /// # Errors
    /// The nearest key, and all of them.
    pub fn add(&mut self, key: &str, value: Value) -> Result<(), String> {
        add(self, key, value)
    }
}

impl ScenarioOptions {
    /// The keys of a scenario, in the order of the declaration.
    pub fn all_keys() -> Vec<String> {
        Self::keys()
    }

    /// Adds a value by its key, for programs that vary one.
    ///
    /// # Errors
    /// The nearest key, and all of them.
    pub fn add(&mut self, key: &str, value: Value) -> Result<(), String> {
        add(self, key, value)
    }

    /// Visits every value with its key, in the order of the declaration. It is for programs that
    /// fill in placeholders or write a scenario down.
    pub fn for_each(&mut self, visit: &mut dyn FnMut(&str, &mut Value)) {
        for key in Self::keys() {
            if let Some(field) = self.field(&key) {
                field.for_each(&mut |value| visit(&key, value));
            }
        }
    }
}

/// Values from the command line have their option as location.
#[cfg(feature = "clap")]
mod clap_values {
    use super::{Link, Value};
    use clap::builder::{MapValueParser, StringValueParser, TypedValueParser, ValueParserFactory};
    use clap::{Arg, Command, Error};
    use std::ffi::OsStr;

    /// Parses a [`Value`].
    #[derive(Clone)]
    pub struct ValueParser;

    impl TypedValueParser for ValueParser {
        type Value = Value;

        fn parse_ref(
            &self,
            cmd: &Command,
            arg: Option<&Arg>,
            value: &OsStr,
        ) -> Result<Value, Error> {
            let text = StringValueParser::new().parse_ref(cmd, arg, value)?;
            let name = arg.and_then(Arg::get_long).unwrap_or_default();
            Ok(Value::option(name, text))
        }
    }

    impl ValueParserFactory for Value {
        type Parser = ValueParser;

        fn value_parser() -> ValueParser {
            ValueParser
        }
    }

    impl ValueParserFactory for Link {
        type Parser = MapValueParser<ValueParser, fn(Value) -> Self>;

        fn value_parser() -> Self::Parser {
            ValueParser.map(Self::from)
        }
    }
}
