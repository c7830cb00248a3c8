// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queues by name. Add a file `queue/NAME.rs` with a constant `QUEUE`, and its name in the line
//! below. Then the command line, the simulator, the emulator and the conformance suite have it.
use crate::{DropReason, Packet};
use alcc_units::{Bytes, OptionDoc, Options, Rng, Spec, SpecError, Time};
use std::fmt;
use std::str::FromStr;

macro_rules! queues {
    ($($name:ident),* $(,)?) => {
        $(mod $name;)*
        const BUILTIN: &[QueueKind] = &[$($name::QUEUE),*];
    };
}

queues! { droptail, red, codel, pie, fq_codel, users, policer, shaper }

pub use droptail::Limits;

/// The option of the queues that mark. They mark only packets whose sender understands marks. So
/// the default is yes. RFC 7567, section 4.2.1, wants it of every managed queue, and RFC 8290,
/// section 5.2.6, has it.
const ECN: OptionDoc = OptionDoc {
    name: "ecn",
    default: "yes",
    help: "no: packets that could be marked (ECT) are dropped as well",
};

fn ecn(options: &Options<'_>) -> Result<bool, SpecError> {
    Ok(options.choice(ECN.name, &["yes", "no"])? == "yes")
}

/// Packets that wait for a bottleneck. First in, first out, unless its documentation says
/// otherwise.
///
/// Time is an argument and never goes back. A packet that the bottleneck has begun to carry is out
/// of the queue.
pub trait Queue: fmt::Debug + Send + Sync {
    /// A packet arrives: takes it, or says why not. `rng` is for queues that draw at random.
    /// Packets that have to give way to it go to `drops`; in the end that may be the packet itself.
    fn enqueue(
        &mut self,
        now: Time,
        packet: Packet,
        rng: &mut Rng,
        drops: &mut Vec<Packet>,
    ) -> Enqueue;

    /// The bottleneck is free: the packet to carry next, if one may leave. Packets that the queue
    /// discards to find it go to `drops`.
    fn dequeue(&mut self, now: Time, drops: &mut Vec<Packet>) -> Option<Queued>;

    /// The earliest time at which the packet to carry next may leave. A time in the past, unless
    /// the queue holds packets back.
    fn ready(&self) -> Time {
        Time::ZERO
    }

    /// Its limits, if it has no other rule: first in, first out, and packets that do not fit are
    /// refused.
    fn drop_tail(&self) -> Option<Limits> {
        None
    }

    /// How many packets wait.
    fn len(&self) -> usize;

    /// How many bytes wait.
    fn bytes(&self) -> Bytes;

    /// True if nothing waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy in the same state.
    fn duplicate(&self) -> Box<dyn Queue>;
}

impl Clone for Box<dyn Queue> {
    fn clone(&self) -> Self {
        self.duplicate()
    }
}

/// A packet that waits or has waited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queued {
    /// The packet.
    pub packet: Packet,
    /// When it arrived.
    pub arrived: Time,
}

/// The answer to an arriving packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Enqueue {
    /// It waits in the queue.
    Taken,
    /// It was refused.
    Refused(DropReason),
}

/// One queue that a user can name.
#[derive(Clone, Copy)]
pub struct QueueKind {
    /// The name: lower case.
    pub name: &'static str,
    /// One line for `alcc list`.
    pub summary: &'static str,
    /// Packets of different flows may overtake each other; those of one flow never do.
    pub overtaking: bool,
    /// The options.
    pub options: &'static [OptionDoc],
    /// Makes an empty queue, or says which option is wrong.
    pub build: fn(&Options<'_>) -> Result<Box<dyn Queue>, SpecError>,
}

impl QueueKind {
    /// All queues of this crate.
    pub fn all() -> impl Iterator<Item = &'static Self> + Clone {
        BUILTIN.iter()
    }
}

/// Which queue to use. It is checked, so making a queue cannot fail. Reads `droptail:bytes=2000000`
/// and prints it back.
#[derive(Clone, Debug)]
pub struct QueueSpec {
    spec: Spec,
    prototype: Box<dyn Queue>,
}

impl QueueSpec {
    /// A queue of another crate, under a name of its own; `prototype` is copied for every use.
    pub fn new(spec: Spec, prototype: Box<dyn Queue>) -> Self {
        Self { spec, prototype }
    }

    /// Drop-tail without a limit: nothing is ever dropped.
    pub fn infinite() -> Self {
        Self::new(Spec::named("droptail"), droptail::bounded(Bytes::MAX))
    }

    /// Drop-tail with a limit in bytes.
    pub fn droptail(limit: Bytes) -> Self {
        let mut spec = Spec::named("droptail");
        spec.options
            .push(("bytes".to_owned(), limit.get().to_string()));
        Self::new(spec, droptail::bounded(limit))
    }

    /// An empty queue.
    pub fn queue(&self) -> Box<dyn Queue> {
        self.prototype.duplicate()
    }

    /// The specification that was asked for.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }
}

impl Default for QueueSpec {
    /// The default of the experiments: drop-tail of 2,000,000 bytes.
    fn default() -> Self {
        Self::droptail(Bytes::new(2_000_000))
    }
}

impl fmt::Display for QueueSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.fmt(f)
    }
}

impl TryFrom<Spec> for QueueSpec {
    type Error = SpecError;

    fn try_from(spec: Spec) -> Result<Self, SpecError> {
        let kind = QueueKind::all()
            .find(|k| k.name == spec.name)
            .ok_or_else(|| {
                SpecError::unknown("queue", &spec.name, QueueKind::all().map(|k| k.name))
            })?;
        let prototype = (kind.build)(&Options::new("queue", &spec, kind.options, &[])?)?;
        Ok(Self { spec, prototype })
    }
}

impl FromStr for QueueSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        text.parse::<Spec>()?.try_into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        match text.parse::<QueueSpec>() {
            Ok(_) => panic!("{text} was taken"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_queue_prints_as_typed() {
        for text in ["droptail", "droptail:bytes=2000000,packets=10"] {
            assert_eq!(text.parse::<QueueSpec>().unwrap().to_string(), text);
        }
        assert_eq!(QueueSpec::default().to_string(), "droptail:bytes=2000000");
        assert_eq!(QueueSpec::infinite().to_string(), "droptail");
    }

    #[test]
    fn mistakes_are_named_with_what_would_be_right() {
        assert!(refused("droptial").contains("no queue 'droptial' (did you mean droptail?)"));
        assert!(refused("droptail:byte=3").contains("did you mean bytes?"));
        assert_eq!(
            refused("droptail:packets=0"),
            "queue droptail: packets=0: want a whole number from 1 to 1000000000"
        );
        assert!(refused("droptail:bytes").contains("write name or name:option=value"));
    }
}
