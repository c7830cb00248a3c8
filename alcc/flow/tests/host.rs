// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The list of operations of the conformance kit, driven through the hosts of this crate.
use alcc_cc::Instance;
use alcc_cc::conformance::{HostUnderTest, START, check_host};
use alcc_flow::{
    Ack, AckSample, Arrival, Limit, OverTcp, Range, Repair, Rules, Sender, TcpProgress, Transmit,
};
use alcc_units::{Bytes, Span, Time};
use std::collections::{BTreeSet, VecDeque};

/// A sender and what its packets did.
struct Packets {
    sender: Sender,
    mss: u64,
    under_way: Vec<Transmit>,
    /// Start positions of the segments that have arrived.
    arrived: BTreeSet<u64>,
    complete: u64,
}

impl Packets {
    fn new(cc: Instance, rules: &Rules) -> Self {
        let mut sender = Sender::new(cc, rules, START, None, 1);
        sender.start(START);
        Self {
            mss: sender.rules().mss.get(),
            sender,
            under_way: Vec::new(),
            arrived: BTreeSet::new(),
            complete: 0,
        }
    }

    fn transmit(&mut self, now: Time) {
        while let Some(transmit) = self.sender.poll_transmit(now) {
            // A window probe gets no answer.
            if transmit.len > 0 {
                self.under_way.push(transmit);
            }
        }
    }
}

impl HostUnderTest for Packets {
    fn wait(&mut self, now: Time) {
        for _ in 0..100 {
            let Some(due) = self.sender.next_timer().filter(|due| *due <= now) else {
                break;
            };
            self.sender.on_timer(due);
            self.transmit(due);
        }
        self.sender.on_timer(now);
        self.transmit(now);
    }

    fn send(&mut self, now: Time, packets: usize) {
        self.sender.write(Bytes::new(self.mss * packets as u64));
        self.transmit(now);
        self.sender.forget_unsent();
    }

    fn acknowledge(&mut self, now: Time, lost: usize, arrived: usize) {
        let heard: Vec<Transmit> = self.under_way.drain(..lost + arrived).skip(lost).collect();
        let mut ack = Ack::default();
        ack.window = Bytes::new(1 << 30);
        ack.sent_at = now;
        let Some(newest) = heard.last() else { return };
        ack.echo = newest.sent_at;
        if self.sender.rules().is_stream() {
            self.arrived.extend(heard.iter().map(|t| t.start));
            while self.arrived.remove(&self.complete) {
                self.complete += self.mss;
            }
            self.arrived.retain(|start| *start > self.complete);
            for start in self.arrived.iter().rev() {
                ack.push(Range::new(*start, start + self.mss));
            }
            ack.cumulative_ack = self.complete;
        } else {
            for t in heard.iter().rev() {
                ack.push(Range::new(t.pn, t.pn + 1));
            }
        }
        let ranges: Vec<Range> = if self.sender.rules().is_stream() {
            ack.ranges().to_vec()
        } else {
            heard.iter().map(|t| Range::new(t.pn, t.pn + 1)).collect()
        };
        let arrivals: Vec<Arrival> = if self.sender.rules().arrivals {
            heard
                .iter()
                .map(|t| Arrival { pn: t.pn, at: now })
                .collect()
        } else {
            Vec::new()
        };
        (self.sender.on_ack_arrivals(now, &ack, &ranges, &arrivals)).unwrap();
    }

    fn under_way(&self) -> usize {
        self.under_way.len()
    }
}

/// A connection of the kernel, in whole segments, below an algorithm: what is lost is sent again at
/// the next reading, and arrives before the one after it.
struct Kernel {
    flow: OverTcp,
    written: u64,
    acked: u64,
    /// Missing, and arrived beyond it.
    missing: u64,
    beyond: u64,
    lost: u64,
    retransmits: u64,
}

const MSS: Bytes = Bytes::new(1448);

impl Kernel {
    fn new(cc: Instance) -> Self {
        let tcp = TcpProgress {
            mss: MSS,
            ..TcpProgress::default()
        };
        Self {
            flow: OverTcp::new(cc, START, &tcp, 1),
            written: 0,
            acked: 0,
            missing: 0,
            beyond: 0,
            lost: 0,
            retransmits: 0,
        }
    }

    fn read(&mut self, now: Time) {
        let tcp = TcpProgress {
            acked: self.acked * MSS.get(),
            written: self.written * MSS.get(),
            retransmits: self.retransmits,
            lost: self.lost,
            sacked: self.beyond,
            repair: if self.missing > 0 {
                Repair::Losses
            } else {
                Repair::None
            },
            min_rtt: Span::from_millis(29),
            mss: MSS,
            ..TcpProgress::default()
        };
        self.flow.progress(now, &tcp);
    }

    fn repair(&mut self) {
        self.retransmits += self.missing;
        self.acked += self.missing + self.beyond;
        (self.missing, self.beyond) = (0, 0);
    }

    fn queued(&self) -> Bytes {
        MSS * (self.written - self.acked)
    }
}

impl HostUnderTest for Kernel {
    fn wait(&mut self, now: Time) {
        if self.flow.deadline().is_some_and(|due| due <= now) {
            self.repair();
            self.read(now);
        }
        self.flow.on_timer(now);
    }

    fn send(&mut self, now: Time, packets: usize) {
        if self.flow.is_writable(self.queued(), Bytes::ZERO) {
            self.flow.unblock();
        }
        for _ in 0..packets {
            if self.flow.room(now, MSS, self.queued(), Bytes::ZERO) < MSS {
                break;
            }
            self.flow.wrote(now, MSS);
            self.written += 1;
        }
    }

    fn acknowledge(&mut self, now: Time, lost: usize, arrived: usize) {
        self.repair();
        if lost > 0 {
            (self.missing, self.beyond) = (lost as u64, arrived as u64);
            self.lost += self.missing;
        } else {
            self.acked += arrived as u64;
        }
        self.read(now);
    }

    fn under_way(&self) -> usize {
        (self.written - self.acked - self.missing - self.beyond) as usize
    }
}

/// A kernel that enforces the algorithm's limit and reports each acknowledgement; lost packets are
/// sent again at once.
struct SampledKernel {
    flow: OverTcp,
    limit: Limit,
    /// Sending times of the packets in flight.
    in_flight: VecDeque<Time>,
    last: AckSample,
    acked: u64,
}

impl SampledKernel {
    fn new(cc: Instance) -> Self {
        let tcp = TcpProgress {
            mss: MSS,
            ..TcpProgress::default()
        };
        let first = AckSample {
            at: START,
            rtt: None,
            // They wrap on the way.
            delivered: u32::MAX - 20,
            lost: u32::MAX,
            in_flight: 0,
        };
        let mut flow = OverTcp::new(cc, START, &tcp, 1);
        flow.use_samples(&first);
        Self {
            limit: flow.limit().expect("the kernel keeps it"),
            flow,
            in_flight: VecDeque::new(),
            last: first,
            acked: 0,
        }
    }

    fn read(&mut self, now: Time, samples: &[AckSample]) {
        let in_flight = self.in_flight.len() as u32;
        let tcp = TcpProgress {
            acked: self.acked * MSS.get(),
            written: (self.acked + u64::from(in_flight)) * MSS.get(),
            in_flight,
            min_rtt: Span::from_millis(29),
            mss: MSS,
            ..TcpProgress::default()
        };
        self.flow.progress_sampled(now, &tcp, samples);
        self.limit = self.flow.limit().expect("the kernel keeps it");
    }

    fn has_room(&self) -> bool {
        let limit = self.limit;
        let in_flight = self.in_flight.len() as u32;
        let ended = self.last.delivered.wrapping_add(self.last.lost);
        let sent = ended.wrapping_add(in_flight);
        let remains = |until: u32| until.wrapping_sub(sent).cast_signed() > 0;
        in_flight < limit.window && limit.until.is_none_or(remains)
    }
}

impl HostUnderTest for SampledKernel {
    fn wait(&mut self, now: Time) {
        self.read(now, &[]);
    }

    fn send(&mut self, now: Time, packets: usize) {
        for _ in 0..packets {
            if !self.has_room() {
                break;
            }
            self.flow.wrote(now, MSS);
            self.in_flight.push_back(now);
            self.read(now, &[]);
        }
    }

    fn acknowledge(&mut self, now: Time, lost: usize, arrived: usize) {
        let newest = self.in_flight.drain(..lost + arrived).next_back();
        self.last = AckSample {
            at: now,
            rtt: newest.map(|sent_at| now.since(sent_at)),
            delivered: self.last.delivered.wrapping_add(arrived as u32),
            lost: self.last.lost.wrapping_add(lost as u32),
            in_flight: self.in_flight.len() as u32,
        };
        self.acked += arrived as u64;
        self.in_flight.extend(std::iter::repeat_n(now, lost));
        self.read(now, &[self.last]);
    }

    fn under_way(&self) -> usize {
        self.in_flight.len()
    }
}

#[test]
fn senders_by_all_rules() {
    for rules in Rules::ALL {
        // Data written at once fits into all buffers.
        let rules = Rules {
            send_buffer: (rules.send_buffer.1, rules.send_buffer.1),
            window: (rules.window.1, rules.window.1),
            ..*rules
        };
        check_host(&alcc_zoo::registry(), rules.mss, &|cc| {
            Box::new(Packets::new(cc, &rules))
        });
    }
}

#[test]
fn above_the_kernels_tcp() {
    check_host(&alcc_zoo::registry(), MSS, &|cc| Box::new(Kernel::new(cc)));
}

#[test]
fn above_a_kernel_that_keeps_the_limit() {
    check_host(&alcc_zoo::registry(), MSS, &|cc| {
        Box::new(SampledKernel::new(cc))
    });
}
