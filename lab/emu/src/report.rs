// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::FlowKey;
use crate::histogram::Histogram;
use alcc_link::{DropReason, Outcome};
use alcc_units::{Bytes, Rate, Span, Time};

/// Statistics of one direction, from start to stop. A value that was never measured is `None`.
///
/// Every packet that the relay read is in `delivered`, in one of the drop counters or in `inside`:
/// `read = delivered + lost + overflowed + aqm_dropped + store_full + write_failed + inside`.
#[derive(Clone, Default, Debug)]
#[non_exhaustive]
pub struct DirectionReport {
    /// Packets that the relay took from the sending namespace.
    pub read: u64,
    /// Their IP bytes.
    pub read_bytes: Bytes,
    /// Packets handed to the receiving namespace.
    pub delivered: u64,
    /// Their IP bytes.
    pub delivered_bytes: Bytes,
    /// Packets lost at random, as configured, before the bottleneck and after it.
    pub lost: u64,
    /// Packets that found the model's queue full.
    pub overflowed: u64,
    /// Packets that the queue's active management dropped.
    pub aqm_dropped: u64,
    /// Packets that found the relay's memory full; not part of the model.
    pub store_full: u64,
    /// Packets that the kernel refused to deliver to the receiving namespace; not part of the model.
    pub write_failed: u64,
    /// Packets inside the model at the stop.
    pub inside: u64,
    /// Packets that the kernel dropped before the relay could read them; these are not in `read`. With `veth` also
    /// those dropped after the relay had written them; these are in `delivered`. Not part of the model.
    pub kernel_dropped: u64,
    /// Time at the bottleneck: mean.
    pub queue_delay_mean: Option<Span>,
    /// Time at the bottleneck: 95th percentile, to 1 %.
    pub queue_delay_p95: Option<Span>,
    /// Time at the bottleneck: maximum.
    pub queue_delay_max: Option<Span>,
    /// Bytes that left the bottleneck per time, from its first arrival to its last departure.
    pub throughput: Option<Rate>,
    /// The same without packets lost after the bottleneck.
    pub arrived: Option<Rate>,
    /// Bytes that left the bottleneck over its capacity in the same window, 0 to 1. `None` without a rate limit.
    pub utilization: Option<f64>,
}

impl DirectionReport {
    /// Packets that were lost outside the model; a run with such packets is not faithful.
    pub fn hidden_drops(&self) -> u64 {
        self.store_full + self.write_failed + self.kernel_dropped
    }
}

/// The report on an emulated link, and on its accuracy.
#[derive(Clone, Default, Debug)]
#[non_exhaustive]
pub struct EmuReport {
    /// From the outside to the inside.
    pub down: DirectionReport,
    /// From the inside to the outside.
    pub up: DirectionReport,
    /// Time for which the link existed.
    pub duration: Span,
    /// Lateness of deliveries against the model's time: median.
    pub lateness_p50: Option<Span>,
    /// The same: 99th percentile.
    pub lateness_p99: Option<Span>,
    /// The same: maximum.
    pub lateness_max: Option<Span>,
    /// True if the relay ran with real-time priority (SCHED_FIFO), which root may request.
    pub realtime: bool,
    /// The kind of device: `tun` or `veth`.
    pub device: &'static str,
    /// The flows, the first of which has number 1 as [`alcc_link::Packet::flow`].
    pub flows: Vec<FlowKey>,
}

impl EmuReport {
    /// [`DirectionReport::hidden_drops`] of both directions.
    pub fn hidden_drops(&self) -> u64 {
        self.down.hidden_drops() + self.up.hidden_drops()
    }
}

/// The counters behind a [`DirectionReport`].
pub(crate) struct Meter {
    pub(crate) report: DirectionReport,
    queue_delay: Histogram,
    first_arrival: Option<Time>,
    last_departure: Time,
    departed: Bytes,
    /// Those of them that were lost on the radio link.
    lost_behind: Bytes,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self {
            report: DirectionReport::default(),
            queue_delay: Histogram::new(),
            first_arrival: None,
            last_departure: Time::ZERO,
            departed: Bytes::ZERO,
            lost_behind: Bytes::ZERO,
        }
    }

    pub(crate) fn count(&mut self, outcome: &Outcome) {
        let r = &mut self.report;
        match *outcome {
            Outcome::Arrived { at, .. } => {
                self.first_arrival.get_or_insert(at);
            }
            Outcome::Departed {
                at,
                packet,
                arrived,
            } => {
                self.queue_delay.add(at.since(arrived));
                self.last_departure = at;
                self.departed += packet.len;
            }
            Outcome::Delivered { packet, .. } => {
                r.delivered += 1;
                r.delivered_bytes += packet.len;
            }
            Outcome::Repeated { .. } => {}
            Outcome::Dropped { why, packet, .. } => match why {
                DropReason::Loss => r.lost += 1,
                DropReason::Radio | DropReason::Corrupt => {
                    r.lost += 1;
                    self.lost_behind += packet.len;
                }
                DropReason::Overflow => r.overflowed += 1,
                DropReason::Aqm => r.aqm_dropped += 1,
            },
        }
    }

    /// The kernel refused a packet that was counted as delivered.
    pub(crate) fn refused(&mut self, len: Bytes) {
        let r = &mut self.report;
        r.delivered -= 1;
        r.delivered_bytes = r.delivered_bytes.saturating_sub(len);
        r.write_failed += 1;
    }

    /// Makes the report. `offered` returns the bottleneck's capacity between two times.
    pub(crate) fn finish(mut self, offered: impl Fn(Time, Time) -> Bytes) -> DirectionReport {
        self.report.queue_delay_mean = self.queue_delay.mean();
        self.report.queue_delay_p95 = self.queue_delay.quantile(0.95);
        self.report.queue_delay_max = self.queue_delay.max();
        if let Some(first) = self.first_arrival {
            let window = self.last_departure.since(first);
            if !window.is_zero() {
                self.report.throughput = Some(Rate::of(self.departed, window));
                let arrived = self.departed - self.lost_behind;
                self.report.arrived = Some(Rate::of(arrived, window));
                let offered = offered(first, self.last_departure);
                if offered < Bytes::MAX && offered > Bytes::ZERO {
                    self.report.utilization =
                        Some(self.departed.get() as f64 / offered.get() as f64);
                }
            }
        }
        self.report
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_link::{Ecn, Packet};

    /// `throughput` is what left the bottleneck, and `arrived` what of it the other end got.
    #[test]
    fn what_is_lost_behind_the_bottleneck_does_not_arrive() {
        let mut meter = Meter::new();
        let ms = Time::from_millis;
        let packet = |id| Packet {
            id,
            flow: 1,
            len: Bytes::new(1500),
            ecn: Ecn::default(),
        };
        meter.count(&Outcome::Arrived {
            at: ms(0),
            packet: packet(0),
        });
        for id in 1..=4 {
            let (at, packet, arrived) = (ms(id), packet(id), ms(0));
            meter.count(&Outcome::Departed {
                at,
                packet,
                arrived,
            });
        }
        let lost = [
            DropReason::Radio,
            DropReason::Corrupt,
            DropReason::Loss,
            DropReason::Overflow,
        ];
        for why in lost {
            meter.count(&Outcome::Dropped {
                at: ms(4),
                packet: packet(5),
                why,
            });
        }
        let report = meter.finish(|_, _| Bytes::MAX);
        // 4 packets of 12,000 bit in 4 ms left, and 2 of them were lost on the radio link.
        assert_eq!(report.throughput, Some(Rate::mbps(12)));
        assert_eq!(report.arrived, Some(Rate::mbps(6)));
        assert_eq!((report.lost, report.overflowed), (3, 1));
    }
}
