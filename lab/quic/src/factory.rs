// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::controller::Adapter;
use crate::gauge::Gauge;
use crate::host::Host;
use alcc_cc::{Registry, Spec, SpecError};
use alcc_units::Span;
use noq::congestion::{Controller, ControllerFactory};
use noq::{AckFrequencyConfig, TransportConfig};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// One of the algorithms of this project as a congestion controller, by its name and options:
/// `verus:r=4`.
///
/// # Errors
/// [`SpecError`] for an unknown name or option and for an invalid value.
pub fn congestion(spec: &str) -> Result<Arc<Congestion>, SpecError> {
    Congestion::new(alcc_zoo::registry(), spec.parse()?).map(Arc::new)
}

/// An algorithm with its options, which makes a controller for each connection (or path).
///
/// ```
/// use alcc_cc::Registry;
/// use alcc_quic::Congestion;
/// use std::sync::Arc;
///
/// let copa = Congestion::new(Registry::builtin(), "copa:profile=paper".parse()?)?.seed(7);
/// let mut transport = noq::TransportConfig::default();
/// Arc::new(copa).set(&mut transport);
/// # Ok::<(), alcc_cc::SpecError>(())
/// ```
pub struct Congestion {
    registry: Registry,
    spec: Spec,
    /// True if the peer should acknowledge every packet.
    per_packet_ack: bool,
    seed: u64,
    made: AtomicU64,
    gauge: Arc<Gauge>,
}

impl Congestion {
    /// Any algorithm of `registry`, which may have been extended ([`Registry::with`]).
    ///
    /// # Errors
    /// [`SpecError`] for an unknown name or option and for an invalid value.
    pub fn new(registry: Registry, spec: Spec) -> Result<Self, SpecError> {
        let cc = registry.build(&spec)?;
        Ok(Self {
            registry,
            spec,
            per_packet_ack: cc.needs().per_packet_ack || cc.has_receiver(),
            seed: RandomState::new().hash_one(0),
            made: AtomicU64::new(0),
            gauge: Arc::default(),
        })
    }

    /// Sets the seed of the algorithms' random numbers; without it each run has a different one.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets a callback for every measured round-trip time. That of a packet that was acknowledged
    /// late includes the ACK delay.
    #[must_use]
    pub fn observed(mut self, observe: impl Fn(Span) + Send + Sync + 'static) -> Self {
        self.gauge = Arc::new(Gauge {
            observer: Some(Box::new(observe)),
            ..Gauge::default()
        });
        self
    }

    /// The published state of its controllers, which is meaningful if they belong to one
    /// connection.
    pub fn gauge(&self) -> Arc<Gauge> {
        Arc::clone(&self.gauge)
    }

    /// Its specification.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Makes it the congestion controller of `transport`. It requests an acknowledgement of every
    /// packet if the algorithm needs that. A peer without the extension "acknowledgement frequency"
    /// acknowledges every second one, which blurs delays a little.
    pub fn set(self: &Arc<Self>, transport: &mut TransportConfig) {
        transport.congestion_controller_factory(Arc::clone(self) as _);
        if self.per_packet_ack {
            let mut acks = AckFrequencyConfig::default();
            acks.ack_eliciting_threshold(0u8.into());
            transport.ack_frequency_config(Some(acks));
        }
    }
}

impl fmt::Debug for Congestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Congestion").field(&self.spec).finish()
    }
}

impl ControllerFactory for Congestion {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let Ok(cc) = self.registry.build(&self.spec) else {
            unreachable!("it was built once with the same words")
        };
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let seed = self.seed.wrapping_add(number);
        let host = Host::new(cc, now, current_mtu, seed, Arc::clone(&self.gauge));
        Box::new(Adapter::new(host))
    }
}
