// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queues by name. Add a file `queue/NAME.rs` with a constant `QUEUE`, and its name in the line
//! below. The command line, the simulator, the emulator and the conformance suite take it from
//! there.
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

/// The option of queues that mark. They mark only packets whose sender supports marks, so the
/// default is yes. RFC 7567, section 4.2.1, requires it of every managed queue, and RFC 8290,
/// section 5.2.6, specifies it.
const ECN: OptionDoc = OptionDoc {
    name: "ecn",
    default: "yes",
    help: "no: packets that could be marked (ECT) are dropped as well",
};

fn ecn(options: &Options<'_>) -> Result<bool, SpecError> {
    Ok(options.choice(ECN.name, &["yes", "no"])? == "yes")
}

/// A queue of packets before a bottleneck. It is first in, first out, unless its documentation
/// describes another order.
///
/// Time is an argument and never goes back. A packet that the bottleneck has begun to carry is no
/// longer in the queue.
///
/// ```
/// use alcc_link::queue::{Enqueue, QueueSpec};
/// use alcc_link::{Ecn, Packet};
/// use alcc_units::{Bytes, Rng, Time};
///
/// let mut queue = "droptail:bytes=3000".parse::<QueueSpec>()?.queue();
/// let (mut rng, mut drops) = (Rng::new(1), Vec::new());
/// let packet = |id| Packet { id, flow: 0, len: Bytes::new(1500), ecn: Ecn::NotEct };
/// for id in 0..2 {
///     let result = queue.enqueue(Time::ZERO, packet(id), &mut rng, &mut drops);
///     assert_eq!(result, Enqueue::Taken);
/// }
/// let result = queue.enqueue(Time::ZERO, packet(2), &mut rng, &mut drops);
/// assert!(matches!(result, Enqueue::Refused(_)));
/// let first = queue.dequeue(Time::from_millis(1), &mut drops).expect("two wait");
/// assert_eq!((first.packet.id, queue.len()), (0, 1));
/// # Ok::<(), alcc_units::SpecError>(())
/// ```
pub trait Queue: fmt::Debug + Send + Sync {
    /// Takes an arriving packet, or refuses it with the reason. `rng` is for queues that drop at
    /// random. Packets that are dropped to make room go to `drops`; the packet itself may be one of
    /// them.
    fn enqueue(
        &mut self,
        now: Time,
        packet: Packet,
        rng: &mut Rng,
        drops: &mut Vec<Packet>,
    ) -> Enqueue;

    /// The next packet for a free bottleneck, if there is one that may depart. Packets that the
    /// queue discards before it go to `drops`.
    fn dequeue(&mut self, now: Time, drops: &mut Vec<Packet>) -> Option<Queued>;

    /// The earliest time at which the next packet may depart. It is in the past, unless the queue
    /// holds packets back.
    fn ready(&self) -> Time {
        Time::ZERO
    }

    /// The limits of a queue without any other rule: first in, first out, and packets that do not
    /// fit are refused.
    fn drop_tail(&self) -> Option<Limits> {
        None
    }

    /// Number of waiting packets.
    fn len(&self) -> usize;

    /// Bytes of the waiting packets.
    fn bytes(&self) -> Bytes;

    /// True if no packet waits.
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

/// A packet that waits or has waited in a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queued {
    /// The packet.
    pub packet: Packet,
    /// Time of its arrival.
    pub arrived: Time,
}

/// Result of an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Enqueue {
    /// It waits in the queue.
    Taken,
    /// It was refused.
    Refused(DropReason),
}

/// One queue that a user can select.
///
/// ```
/// use alcc_link::QueueKind;
///
/// let codel = QueueKind::all().find(|kind| kind.name == "codel").expect("it is built in");
/// assert!(codel.options.iter().any(|option| option.name == "target"));
/// ```
#[derive(Clone, Copy)]
pub struct QueueKind {
    /// The name: lower case.
    pub name: &'static str,
    /// One line for `alcc list`.
    pub summary: &'static str,
    /// True if packets of different flows may overtake each other; those of one flow never do.
    pub overtaking: bool,
    /// The options.
    pub options: &'static [OptionDoc],
    /// Makes an empty queue, or reports a wrong option.
    pub build: fn(&Options<'_>) -> Result<Box<dyn Queue>, SpecError>,
}

impl QueueKind {
    /// All queues of this crate.
    pub fn all() -> impl Iterator<Item = &'static Self> + Clone {
        BUILTIN.iter()
    }
}

/// A checked choice of a queue, so that making the queue cannot fail. It is parsed from
/// `droptail:bytes=2000000`, and prints the same text.
///
/// ```
/// use alcc_link::QueueSpec;
///
/// let spec: QueueSpec = "codel:target=5ms".parse()?;
/// assert!(spec.queue().is_empty());
/// assert!("codel:target=fast".parse::<QueueSpec>().is_err());
/// # Ok::<(), alcc_units::SpecError>(())
/// ```
#[derive(Clone, Debug)]
pub struct QueueSpec {
    spec: Spec,
    prototype: Box<dyn Queue>,
}

impl QueueSpec {
    /// A queue of another crate, under its own name; `prototype` is copied for every use.
    pub fn new(spec: Spec, prototype: Box<dyn Queue>) -> Self {
        Self { spec, prototype }
    }

    /// Drop-tail without a limit, which drops nothing.
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

    /// The specification as typed.
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
            "queue droptail: packets=0: expected a whole number from 1 to 1000000000"
        );
        assert!(refused("droptail:bytes").contains("write name or name:option=value"));
    }
}
