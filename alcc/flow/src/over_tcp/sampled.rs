// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A connection whose kernel keeps the algorithm's limit, and reports each acknowledgement.
use super::{Episode, OverTcp, Repair, TcpProgress};
use crate::transmissions::{AckSample, Transmissions};
use alcc_cc::{Acked, Kind, LimitedBy, Rto, Sending, Sent, Source};
use alcc_units::{Bytes, Rate, Span, Time};

/// The limit that the kernel shall keep until the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limit {
    /// Packets in flight.
    pub window: u32,
    /// Upper bound for the total number of transmissions, as [`AckSample`] counts them; wraps.
    pub until: Option<u32>,
    /// Pacing rate.
    pub rate: Option<Rate>,
}

impl OverTcp {
    /// From now on the kernel keeps [`OverTcp::limit`] by itself and reports each acknowledgement.
    /// Nothing is ever refused here, and readings go to [`OverTcp::progress_sampled`]. `first` is
    /// the kernel's last sample. Call this right after [`OverTcp::start`].
    pub fn use_samples(&mut self, first: &AckSample) {
        let now = self.feed.now();
        self.transmissions = Some(Box::new(Transmissions::new(now, first)));
        self.expect(first.in_flight);
        self.leave(first.in_flight, now);
    }

    /// The limit that the kernel should keep now; `None` if the kernel does not keep one.
    pub fn limit(&self) -> Option<Limit> {
        let sent = self.transmissions.as_ref()?.total();
        let allowance = self.feed.allowance();
        let packets = |bytes: Bytes| {
            let n = bytes.get() / self.mss.get().max(1);
            u32::try_from(n).unwrap_or(u32::MAX)
        };
        let quota = (allowance.quota != Bytes::MAX)
            .then(|| packets(allowance.quota).max(allowance.ping.into()));
        Some(Limit {
            window: packets(allowance.window).max(1),
            // Half of the numbers are in the past.
            until: quota.map(|n| sent.wrapping_add(n.min(u32::MAX / 4))),
            rate: self.pacing_by(&allowance),
        })
    }

    /// The acknowledgements since the last reading, and the kernel's counters, which were read
    /// after them.
    pub fn progress_sampled(&mut self, now: Time, tcp: &TcpProgress, samples: &[AckSample]) {
        if tcp.mss != self.mss && tcp.mss > Bytes::ZERO {
            self.mss = tcp.mss;
            self.feed.mtu(tcp.mss);
        }
        self.tell_timeout(now, tcp);
        if let Some(transmissions) = &self.transmissions {
            let newest = samples.last().unwrap_or_else(|| transmissions.last());
            self.expect(transmissions.left_before(&AckSample {
                in_flight: tcp.in_flight,
                ..*newest
            }));
        }
        for sample in samples {
            self.take(now, sample, tcp);
        }
        let now = self.feed.advance(now);
        self.take_departures(now, tcp);
        let drained = tcp.acked >= tcp.written && tcp.acked == self.seen.acked;
        self.seen = *tcp;
        self.read_at = now;
        self.unread = false;
        self.feed.run_timer();
        // Who rests is not read again.
        if (drained || self.is_idle())
            && let Some(transmissions) = &mut self.transmissions
        {
            transmissions.clear();
            self.feed.release_memory();
        }
    }

    /// More is acknowledged than at the last reading.
    pub fn has_advanced(&self, tcp: &TcpProgress) -> bool {
        tcp.acked > self.seen.acked
    }

    /// The last acknowledgement that was passed to [`OverTcp::progress_sampled`], or the first sample;
    /// `None` without [`OverTcp::use_samples`].
    pub fn last_sample(&self) -> Option<&AckSample> {
        self.transmissions.as_ref().map(|t| t.last())
    }

    pub(super) fn bytes_under_way(&self) -> Bytes {
        let packets = self.transmissions.as_ref().map_or(0, |t| t.len());
        self.mss * u64::from(packets)
    }

    /// This many packets will have left with this reading. A receiver module wants each of them.
    fn expect(&mut self, count: u32) {
        let each = self.feed.has_local_receiver();
        if let Some(transmissions) = &mut self.transmissions {
            transmissions.begin_reading(count, each);
        }
    }

    /// This many packets left at `at`.
    fn leave(&mut self, mut count: u32, at: Time) {
        let app_limited = self.is_app_limited(&self.seen);
        while count > 0 {
            let in_flight_before = self.bytes_under_way();
            let Some(transmissions) = &mut self.transmissions else {
                return;
            };
            if in_flight_before == Bytes::ZERO {
                let heard_at = transmissions.last().at;
                self.feed.resume(heard_at, self.rtt.view().smoothed);
            }
            let packets = count.min(transmissions.longest());
            count -= packets;
            let (pn, len) = (
                transmissions.next_pn() + u64::from(packets - 1),
                self.mss * u64::from(packets),
            );
            let tag = self.feed.sent(&Sent {
                pn,
                len,
                in_flight_before,
                kind: Kind::New,
                app_limited,
            });
            if self.feed.has_local_receiver() {
                self.feed.header(Sending { pn, more: true });
            }
            transmissions.leave(at, (packets, self.mss), app_limited, tag);
        }
    }

    /// The program had written no more, and the window was open.
    fn is_app_limited(&self, tcp: &TcpProgress) -> bool {
        tcp.unsent == Bytes::ZERO && !tcp.window_full
    }

    /// One acknowledgement.
    fn take(&mut self, now: Time, sample: &AckSample, tcp: &TcpProgress) {
        let Some(transmissions) = &self.transmissions else {
            return;
        };
        let count = transmissions.left_before(sample);
        let left_at = match sample.rtt {
            // After a pause the last acknowledgement says nothing.
            Some(rtt) if transmissions.len() == 0 => Time::ZERO + sample.at.since(Time::ZERO + rtt),
            _ => transmissions.last().at.max(self.last_departure()),
        };
        let left_at = left_at.min(sample.at);
        self.feed.advance(left_at);
        self.leave(count, left_at);
        let in_flight_before = self.bytes_under_way();
        self.feed.advance(sample.at.min(now));
        let Some(transmissions) = &mut self.transmissions else {
            return;
        };
        transmissions.sampled(sample);
        self.feed.notify_local_receiver(transmissions.returned());
        if let Some(rtt) = transmissions.returned().last().and(sample.rtt) {
            self.rtt.sample(rtt);
        }
        self.losses_by_number();
        self.tell_arrivals(in_flight_before, tcp);
    }

    /// A packet that left before the last reading is known already.
    fn last_departure(&self) -> Time {
        if self.unread {
            self.read_at.max(self.last_write)
        } else {
            self.read_at
        }
    }

    /// The packets that left since the last sample. The counters are newer than the sample.
    fn take_departures(&mut self, now: Time, tcp: &TcpProgress) {
        let Some(transmissions) = &self.transmissions else {
            return;
        };
        let more = tcp.in_flight.saturating_sub(transmissions.len());
        let left_at = transmissions.last().at.max(self.last_departure()).min(now);
        self.leave(more, left_at);
    }

    /// An episode is the losses of one flight. It ends with a packet sent in the episode.
    fn losses_by_number(&mut self) {
        let in_flight = self.bytes_under_way();
        let Some(transmissions) = &self.transmissions else {
            return;
        };
        let rtt = self.rtt.view();
        let ends = |packet: &alcc_cc::Packet| self.repair.is_some_and(|e| packet.pn >= e.pn);
        if transmissions.returned().last().is_some_and(ends)
            || transmissions.lost().last().is_some_and(ends)
        {
            self.repair = None;
            self.feed.repaired(in_flight, rtt);
        }
        let new_episode = self.repair.is_none();
        (self.feed).lost(transmissions.lost(), new_episode, in_flight, rtt);
        if new_episode && !transmissions.lost().is_empty() {
            self.repair = Some(Episode {
                recovery_point: 0,
                pn: transmissions.next_pn(),
                timeout: false,
                reported: 0,
            });
        }
    }

    fn tell_arrivals(&mut self, in_flight_before: Bytes, tcp: &TcpProgress) {
        let in_flight = self.bytes_under_way();
        let app_limited = self.is_app_limited(tcp);
        let Some(transmissions) = &self.transmissions else {
            return;
        };
        let packets = transmissions.returned();
        if !packets.is_empty() {
            *self.feed.limited() = LimitedBy {
                app: app_limited,
                window: tcp.window_full,
                ..LimitedBy::default()
            };
            let marked = tcp.marked.saturating_sub(self.seen.marked);
            self.feed.marked(self.mss * marked);
            self.seen.marked = tcp.marked;
        }
        self.feed.acked(&Acked {
            packets,
            in_flight_before,
            in_flight,
            delivery: transmissions.delivery(),
            rtt: self.rtt.view(),
            rate: transmissions.delivery().rate(packets),
            in_recovery: self.repair.is_some(),
            advanced: true,
            source: Source::Wire,
            rtt_error: Span::ZERO,
        });
    }

    /// The retransmission timer has expired since the last reading.
    fn tell_timeout(&mut self, now: Time, tcp: &TcpProgress) {
        let anew = self.seen.repair != Repair::Timeout || tcp.backoff > self.seen.backoff;
        if tcp.repair != Repair::Timeout || !anew {
            return;
        }
        let in_flight = self.bytes_under_way();
        let Some(transmissions) = &self.transmissions else {
            return;
        };
        let Some(oldest) = transmissions.oldest().copied() else {
            return;
        };
        let silence = now.since(transmissions.last().at.max(oldest.sent_at));
        let rto = Rto {
            backoff: tcp.backoff.max(1),
            oldest,
            in_flight,
            silence,
        };
        self.feed
            .advance(now.min(self.read_at.max(self.feed.now())));
        self.feed.expired(&rto);
    }
}
