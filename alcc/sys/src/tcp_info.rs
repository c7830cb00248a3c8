// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The counters of a TCP connection (`TCP_INFO`).
use crate::socket::{Plain, get_option};
use alcc_flow::{Repair, TcpProgress};
use alcc_units::{Bytes, Rate, Span};
use std::mem::{size_of, zeroed};
use std::os::fd::RawFd;

/// The used part of `struct tcp_info` (linux/tcp.h; grows at the end).
#[repr(C)]
struct TcpInfo {
    state: u8,
    ca_state: u8,
    retransmits: u8,
    probes: u8,
    backoff: u8,
    options: u8,
    wscale: u8,
    flags: u8,
    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    last_data_sent: u32,
    last_ack_sent: u32,
    last_data_recv: u32,
    last_ack_recv: u32,
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
    busy_time: u64,
    rwnd_limited: u64,
    sndbuf_limited: u64,
    delivered: u32,
    delivered_ce: u32,
    bytes_sent: u64,
    bytes_retrans: u64,
}

// SAFETY: integers only.
unsafe impl Plain for TcpInfo {}

/// A reading of a connection's counters.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The counters for the ledger.
    pub progress: TcpProgress,
    /// True if written data may still reach the peer. If not, only the kernel's own result of a
    /// write can give the program the reason.
    pub alive: bool,
    /// Bytes acknowledged and sent, by the kernel's count: on the side that connected, the SYN
    /// counts as acknowledged.
    pub(crate) acked: u64,
    pub(crate) sent: u64,
    /// The kernel's own congestion window, segments.
    pub cwnd: u64,
    /// The kernel's slow-start threshold, segments; `None` before it is set.
    pub ssthresh: Option<u64>,
    /// The socket's pacing rate, bytes per second; `u64::MAX`: none.
    pub pacing: u64,
    /// The kernel's estimate of the delivery rate.
    pub delivery: Rate,
}

/// `TCP_INFINITE_SSTHRESH` of net/tcp.h.
const NO_SSTHRESH: u32 = 0x7FFF_FFFF;
/// States of loss recovery (include/uapi/linux/tcp.h).
const TCP_CA_RECOVERY: u8 = 3;
const TCP_CA_LOSS: u8 = 4;
const TCP_ESTABLISHED: u8 = 1;
/// State of a TCP Fast Open connection, which is accepted before the end of its handshake.
const TCP_SYN_RECV: u8 = 3;
const TCP_CLOSE_WAIT: u8 = 8;

/// A consistent reading of a connection's counters. `None` if the descriptor is not a TCP socket,
/// or if the kernel is older than 4.19 and does not count bytes sent.
pub fn read(fd: RawFd) -> Option<Reading> {
    // SAFETY: all fields are integers, zero is valid.
    let mut info: TcpInfo = unsafe { zeroed() };
    let len = get_option(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)?;
    (len >= size_of::<TcpInfo>()).then(|| info.reading())
}

impl Reading {
    /// Decodes a `struct tcp_info`, as `sock_diag` reports it for other processes' sockets; `None`
    /// if there are too few bytes.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        // SAFETY: all fields are integers, zero is valid.
        let mut info: TcpInfo = unsafe { zeroed() };
        let whole = bytes.get(..size_of::<TcpInfo>())?;
        // SAFETY: both are valid for that many bytes, and any bytes are valid integers.
        unsafe {
            let to = (&raw mut info).cast::<u8>();
            std::ptr::copy_nonoverlapping(whole.as_ptr(), to, whole.len());
        }
        Some(info.reading())
    }
}

impl TcpInfo {
    fn reading(&self) -> Reading {
        let info = self;
        let min_rtt = if info.min_rtt == u32::MAX {
            0
        } else {
            info.min_rtt
        };
        let sent = info.bytes_sent.saturating_sub(info.bytes_retrans);
        let delivery = Rate::bps(info.delivery_rate.saturating_mul(8));
        // The same as tcp_packets_in_flight of include/net/tcp.h.
        let in_flight = info
            .unacked
            .saturating_add(info.retrans)
            .saturating_sub(info.sacked.saturating_add(info.lost));
        let progress = TcpProgress {
            acked: info.bytes_acked,
            written: sent
                .max(info.bytes_acked)
                .saturating_add(u64::from(info.notsent_bytes)),
            unsent: Bytes::new(u64::from(info.notsent_bytes)),
            retransmits: u64::from(info.total_retrans),
            // Segments that were lost and retransmitted are in both counters.
            lost: u64::from(info.total_retrans)
                .saturating_add(info.lost.saturating_sub(info.retrans).into()),
            sacked: info.sacked.into(),
            repair: match info.ca_state {
                TCP_CA_RECOVERY => Repair::Losses,
                TCP_CA_LOSS => Repair::Timeout,
                _ => Repair::None,
            },
            backoff: info.retransmits.into(),
            undone: 0,
            ssthresh: info.snd_ssthresh.into(),
            delivery_rate: (info.delivery_rate > 0).then_some(delivery),
            in_flight,
            window_full: in_flight >= info.snd_cwnd,
            min_rtt: Span::from_micros(u64::from(min_rtt)),
            smoothed_rtt: Span::from_micros(info.rtt.into()),
            acks: info.segs_in.into(),
            marked: info.delivered_ce.into(),
            mss: Bytes::new(u64::from(info.snd_mss)),
        };
        Reading {
            progress,
            alive: matches!(info.state, TCP_ESTABLISHED | TCP_SYN_RECV | TCP_CLOSE_WAIT),
            acked: info.bytes_acked,
            sent,
            cwnd: info.snd_cwnd.into(),
            ssthresh: (info.snd_ssthresh < NO_SSTHRESH).then_some(info.snd_ssthresh.into()),
            delivery,
            pacing: info.max_pacing_rate,
        }
    }
}

/// The kernel's counters of a connection, for reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpCounters {
    /// Smoothed round trip; zero before the first sample.
    pub rtt: Span,
    /// Bytes acknowledged.
    pub acked: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Retransmission timeouts; `None` if the kernel (before 6.7) does not count them.
    pub timeouts: Option<u64>,
    /// The kernel's congestion window, segments.
    pub cwnd: u32,
    /// Time with unacknowledged data.
    pub busy: Span,
    /// The part of it in which nothing was left to send, because the send buffer was full.
    pub held_by_buffer: Span,
}

/// Fields that newer kernels append.
#[repr(C)]
struct ExtendedTcpInfo {
    info: TcpInfo,
    dsack_dups: u32,
    reord_seen: u32,
    rcv_ooopack: u32,
    snd_wnd: u32,
    rcv_wnd: u32,
    rehash: u32,
    total_rto: u16,
    total_rto_recoveries: u16,
    total_rto_time: u32,
}
// SAFETY: integers only.
unsafe impl Plain for ExtendedTcpInfo {}

/// The counters of a TCP socket; `None` if it is another kind of descriptor, or the kernel is older
/// than 4.19.
pub fn tcp_counters(fd: RawFd) -> Option<TcpCounters> {
    // SAFETY: all fields are integers, zero is valid.
    let mut longer: ExtendedTcpInfo = unsafe { zeroed() };
    let len = get_option(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut longer)?;
    longer.counters(len)
}

impl ExtendedTcpInfo {
    /// The counters, if `len` bytes contain them.
    fn counters(&self, len: usize) -> Option<TcpCounters> {
        (len >= size_of::<TcpInfo>()).then(|| TcpCounters {
            rtt: Span::from_micros(self.info.rtt.into()),
            acked: self.info.bytes_acked,
            retransmits: self.info.total_retrans.into(),
            timeouts: (len >= size_of::<Self>()).then(|| self.total_rto.into()),
            cwnd: self.info.snd_cwnd,
            busy: Span::from_micros(self.info.busy_time),
            held_by_buffer: Span::from_micros(self.info.sndbuf_limited),
        })
    }
}

impl TcpCounters {
    /// Decodes a `struct tcp_info`, as `sock_diag` reports it for other processes' sockets.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        // SAFETY: all fields are integers, zero is valid.
        let mut longer: ExtendedTcpInfo = unsafe { zeroed() };
        let len = bytes.len().min(size_of::<ExtendedTcpInfo>());
        // SAFETY: both are valid for `len` bytes, and any bytes are valid integers.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut longer).cast::<u8>(), len);
        }
        longer.counters(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_alive_as_long_as_it_takes_bytes() {
        // As in include/net/tcp_states.h.
        let takes_bytes = [1, 3, 8];
        for state in 1..=12 {
            let mut info = [0; size_of::<TcpInfo>()];
            info[0] = state;
            let reading = Reading::of(&info).unwrap();
            assert_eq!(reading.alive, takes_bytes.contains(&state), "{state}");
        }
    }
}
