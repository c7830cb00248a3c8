// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Effects of a radio link after a bottleneck, by name: additional delays, and times at which nothing passes. Add a
//! file `radio/NAME.rs` with a constant `RADIO`, and its name in the line below. The command line, the simulator, the
//! emulator and the property tests take it from there.
//!
//! A recorded trace of delivery opportunities does not contain these delays, which come after the moment at which the
//! bottleneck has carried a packet.
use alcc_units::{OptionDoc, Options, Span, Spec, SpecError, Time};
use std::fmt;
use std::str::FromStr;

mod landings;

macro_rules! radios {
    ($($name:ident),* $(,)?) => {
        $(mod $name;)*
        const BUILTIN: &[RadioKind] = &[$($name::RADIO),*];
    };
}

radios! { harq, rlc, grant, handover, aggregation, leo, loss, jitter, corrupt, duplicate }

/// A time at which nothing passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pause {
    /// Its first moment.
    pub begin: Time,
    /// The first moment after it.
    pub end: Time,
}

/// The state in which a packet arrives at the end of the direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Landing {
    /// Unchanged.
    Whole,
    /// With wrong bits.
    Corrupt,
    /// Twice.
    Twice,
}

/// One effect of a radio link.
///
/// Packets keep their order. Radio links repeat lost blocks, and hold back later packets until then, so only `loss` and
/// `corrupt` lose any. The caller of [`Radio::through`] keeps the order.
pub trait Radio: fmt::Debug + Send + Sync {
    /// Sets the seed of its random numbers. Called once, before everything else.
    fn seed(&mut self, seed: u64);

    /// The time at which a packet that the bottleneck has carried at `at` has passed the radio link, not before `at`.
    /// `at` never decreases.
    fn through(&mut self, at: Time) -> Time {
        at
    }

    /// True if the packet that the bottleneck has carried at `at` is lost. Called once for each, before
    /// [`Radio::through`].
    fn loses(&mut self, _at: Time) -> bool {
        false
    }

    /// The first pause that ends after `time`; it depends only on the seed. `None`: there is none.
    fn pause(&self, _time: Time) -> Option<Pause> {
        None
    }

    /// True if it acts only at the end of the direction, on arriving packets.
    fn is_last(&self) -> bool {
        false
    }

    /// The state in which a packet arrives; called once for each, if it [is last](Radio::is_last).
    fn lands(&mut self) -> Landing {
        Landing::Whole
    }

    /// A copy in the same state.
    fn duplicate(&self) -> Box<dyn Radio>;
}

impl Clone for Box<dyn Radio> {
    fn clone(&self) -> Self {
        self.duplicate()
    }
}

/// One effect of a radio link that a user can select.
///
/// ```
/// use alcc_link::RadioKind;
///
/// assert!(RadioKind::all().any(|kind| kind.name == "harq"));
/// ```
#[derive(Clone, Copy)]
pub struct RadioKind {
    /// The name: lower case.
    pub name: &'static str,
    /// One line for `alcc list`.
    pub summary: &'static str,
    /// The options.
    pub options: &'static [OptionDoc],
    /// Makes the effect, or reports a wrong option.
    pub build: fn(&Options<'_>) -> Result<Box<dyn Radio>, SpecError>,
}

impl RadioKind {
    /// All effects of this crate.
    pub fn all() -> impl Iterator<Item = &'static Self> + Clone {
        BUILTIN.iter()
    }
}

/// A checked choice of an effect, so that making it cannot fail. It is parsed from `harq:errors=0.2`, and prints the
/// same text.
///
/// ```
/// use alcc_link::{DirectionSpec, RadioSpec};
///
/// let harq: RadioSpec = "harq:errors=0.2".parse()?;
/// let spec = DirectionSpec { radio: vec![harq, "rlc".parse()?], ..DirectionSpec::default() };
/// assert_eq!(spec.radio[0].to_string(), "harq:errors=0.2");
/// # Ok::<(), alcc_units::SpecError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RadioSpec {
    spec: Spec,
    prototype: Box<dyn Radio>,
}

impl RadioSpec {
    /// The specification as typed.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The effects of both directions, towards the client and from it, as `asked`. An empty list for the second means
    /// the same as for the first. If both are empty, the texts in `own` apply.
    ///
    /// # Errors
    /// The error of the first invalid text.
    pub fn both(asked: [Vec<Self>; 2], own: [&[&str]; 2]) -> Result<[Vec<Self>; 2], SpecError> {
        let all = |texts: &[&str]| -> Result<Vec<Self>, SpecError> {
            texts.iter().map(|text| text.parse()).collect()
        };
        match asked {
            [down, up] if !up.is_empty() => Ok([down, up]),
            [down, _] if !down.is_empty() => Ok([down.clone(), down]),
            _ => Ok([all(own[0])?, all(own[1])?]),
        }
    }

    /// The effect in its initial state.
    pub(crate) fn radio(&self, seed: u64) -> Box<dyn Radio> {
        let mut radio = self.prototype.duplicate();
        radio.seed(seed);
        radio
    }
}

impl fmt::Display for RadioSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.fmt(f)
    }
}

impl TryFrom<Spec> for RadioSpec {
    type Error = SpecError;

    fn try_from(spec: Spec) -> Result<Self, SpecError> {
        let names = || RadioKind::all().map(|k| k.name);
        let kind = RadioKind::all()
            .find(|k| k.name == spec.name)
            .ok_or_else(|| SpecError::unknown("radio", &spec.name, names()))?;
        let prototype = (kind.build)(&Options::new("radio", &spec, kind.options, &[])?)?;
        Ok(Self { spec, prototype })
    }
}

impl FromStr for RadioSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        text.parse::<Spec>()?.try_into()
    }
}

/// The option of radio links that send in blocks.
const SLOT: OptionDoc = OptionDoc {
    name: "slot",
    default: "1ms",
    help: "length of a block in time, 1us to 1s",
};

/// Parses that option.
fn slot_length(options: &Options<'_>) -> Result<Span, SpecError> {
    let range = Span::from_micros(1)..=Span::from_secs(1);
    options.span("slot", Span::from_millis(1), range)
}

/// The number of the slot of this length in which `at` lies.
fn slot(at: Time, length: Span) -> u64 {
    at.as_nanos() / length.as_nanos().max(1)
}

/// A random generator for one slot alone, so that its numbers do not depend on earlier calls.
fn draws(seed: u64, slot: u64) -> alcc_units::Rng {
    let mut mix = alcc_units::Rng::new(seed);
    alcc_units::Rng::new(mix.next_u64() ^ slot)
}
