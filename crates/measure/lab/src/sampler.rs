// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Watching TCP connections from the outside: the kernel's socket diagnosis, the same for every
//! scheme.
//!
//! Bytes acknowledged + bytes still in the send queue = bytes that the application has written. The
//! other application has the times at which it read them. Together these give the delay from
//! application to application, wherever bytes are parked on the way.
use alcc_results::Distribution;
use alcc_sys::{Reading, TcpCounters};
use alcc_units::{Span, Time};
use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{
    AF_INET, AF_INET6, IPPROTO_TCP, TCP_CLOSING, TCP_FIN_WAIT1, TCP_FIN_WAIT2, TCP_LAST_ACK,
    TCP_TIME_WAIT,
};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{
    ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags,
};
use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;

/// How often a connection is looked at: the error bound of write times.
pub const PERIOD: Span = Span::from_millis(5);

/// One look at one connection.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Connection {
    /// The peer's port.
    pub peer: u16,
    /// Bytes the application has written so far.
    pub written: u64,
    /// Bytes the peer has acknowledged.
    pub acked: u64,
    /// Smoothed round trip; `None` before the first sample.
    pub rtt: Option<Span>,
    /// Segments sent again so far.
    pub retransmits: u64,
    /// Retransmission timeouts so far; `None` if the kernel (before 6.7) does not count them.
    pub timeouts: Option<u64>,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// The kernel's congestion control.
    pub congestion: String,
}

/// What has become of a connection that its program has closed.
#[derive(Clone, Debug)]
pub enum Remains {
    /// The kernel sends what is left.
    Sends(Box<Reading>),
    /// The same, and the peer has ended its side: with the last acknowledgement the kernel forgets
    /// it.
    SendsLast(Box<Reading>),
    /// All has been acknowledged.
    Acknowledged,
    /// The kernel does not know it: it was reset, or is in another network namespace. Or a program
    /// still has it open.
    Unknown,
}

/// A socket to the kernel's diagnosis. It belongs to the network namespace in which it was opened.
pub struct SockDiag {
    socket: Socket,
    buffer: Vec<u8>,
}

impl SockDiag {
    /// Opens one in the network namespace of the calling thread.
    ///
    /// # Errors
    /// What the kernel says: it was built without INET_DIAG, or no descriptor is left.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
        socket.bind_auto()?;
        socket.connect(&netlink_sys::SocketAddr::new(0, 0))?;
        Ok(Self {
            socket,
            buffer: vec![0; 32 * 1024],
        })
    }

    /// What has become of the connection between these ends whose socket had this number
    /// (`SO_COOKIE`). One look-up in a table, no walk through it.
    ///
    /// # Errors
    /// What the kernel says, or [`io::ErrorKind::InvalidData`] for an answer that makes no sense.
    pub fn remains(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        cookie: u64,
    ) -> io::Result<Remains> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST;
        let request = InetRequest {
            family: if remote.is_ipv4() { AF_INET } else { AF_INET6 },
            protocol: IPPROTO_TCP,
            extensions: ExtensionFlags::INFO,
            states: StateFlags::all(),
            socket_id: SocketId {
                source_port: local.port(),
                destination_port: remote.port(),
                source_address: local.ip(),
                destination_address: remote.ip(),
                interface_id: 0,
                cookie: cookie.to_ne_bytes(),
            },
        };
        self.ask(header, request)?;
        let size = self.socket.recv(&mut &mut self.buffer[..], 0)?;
        let answer = self.buffer.get(..size).unwrap_or_default();
        let answer = NetlinkMessage::<SockDiagMessage>::deserialize(answer).map_err(invalid)?;
        match answer.payload {
            NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
                Ok(remains(&response))
            }
            NetlinkPayload::Error(e) => match e.to_io() {
                e if e.kind() == io::ErrorKind::NotFound => Ok(Remains::Unknown),
                e => Err(e),
            },
            _ => Err(invalid("an answer of another kind")),
        }
    }

    fn ask(&mut self, header: NetlinkHeader, request: InetRequest) -> io::Result<()> {
        let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map(drop)
    }

    /// All connections of a family that their programs have closed and the kernel still sends for, by
    /// number (`SO_COOKIE`). One walk through the kernel's table: for many at a time.
    ///
    /// # Errors
    /// As [`SockDiag::connections`].
    pub fn closed(&mut self, ipv4: bool) -> io::Result<HashMap<u64, Remains>> {
        let socket_id = if ipv4 {
            SocketId::new_v4()
        } else {
            SocketId::new_v6()
        };
        let request = InetRequest {
            family: if ipv4 { AF_INET } else { AF_INET6 },
            protocol: IPPROTO_TCP,
            extensions: ExtensionFlags::INFO,
            states: StateFlags::FIN_WAIT1 | StateFlags::CLOSING | StateFlags::LAST_ACK,
            socket_id,
        };
        let mut found = HashMap::new();
        self.dump(request, |response| {
            let cookie = u64::from_ne_bytes(response.header.socket_id.cookie);
            found.insert(cookie, remains(response));
        })?;
        Ok(found)
    }

    /// All IPv4 connections whose port on our side is `port`.
    ///
    /// # Errors
    /// What the kernel says, or [`io::ErrorKind::InvalidData`] for an answer that makes no sense.
    pub fn connections(&mut self, port: u16) -> io::Result<Vec<Connection>> {
        let mut socket_id = SocketId::new_v4();
        socket_id.source_port = port;
        let request = InetRequest {
            family: AF_INET,
            protocol: IPPROTO_TCP,
            extensions: ExtensionFlags::INFO | ExtensionFlags::CONG,
            states: StateFlags::ESTABLISHED | StateFlags::FIN_WAIT1 | StateFlags::CLOSE_WAIT,
            socket_id,
        };
        let mut found = Vec::new();
        self.dump(request, |response| found.extend(connection(response, port)))?;
        Ok(found)
    }

    fn dump(
        &mut self,
        request: InetRequest,
        mut each: impl FnMut(&InetResponse),
    ) -> io::Result<()> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        self.ask(header, request)?;
        loop {
            let size = self.socket.recv(&mut &mut self.buffer[..], 0)?;
            let mut rest = self.buffer.get(..size).unwrap_or_default();
            while !rest.is_empty() {
                let message =
                    NetlinkMessage::<SockDiagMessage>::deserialize(rest).map_err(invalid)?;
                match message.payload {
                    NetlinkPayload::Done(_) => return Ok(()),
                    NetlinkPayload::Error(e) => return Err(e.to_io()),
                    NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
                        each(&response);
                    }
                    _ => {}
                }
                let length = (message.header.length as usize).next_multiple_of(4);
                rest = rest.get(length.max(16)..).unwrap_or_default();
            }
        }
    }
}

fn invalid(why: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_string())
}

fn remains(response: &InetResponse) -> Remains {
    let reading = response.nlas.iter().find_map(|attribute| match attribute {
        Nla::TcpInfo(bytes) => Reading::of(bytes),
        _ => None,
    });
    match (response.header.state, reading) {
        (TCP_FIN_WAIT1 | TCP_CLOSING, Some(reading)) => Remains::Sends(Box::new(reading)),
        (TCP_LAST_ACK, Some(reading)) => Remains::SendsLast(Box::new(reading)),
        (TCP_FIN_WAIT2 | TCP_TIME_WAIT, _) => Remains::Acknowledged,
        _ => Remains::Unknown,
    }
}

fn connection(response: &InetResponse, port: u16) -> Option<Connection> {
    let id = &response.header.socket_id;
    if id.source_port != port {
        return None;
    }
    let mut found = Connection {
        peer: id.destination_port,
        ..Connection::default()
    };
    let mut info = false;
    for attribute in &response.nlas {
        match attribute {
            Nla::TcpInfo(bytes) => info = read_info(bytes, &mut found),
            Nla::Congestion(name) => found.congestion.clone_from(name),
            _ => {}
        }
    }
    found.written = found.acked + u64::from(response.header.send_queue);
    info.then_some(found)
}

/// Reads `struct tcp_info`. False if it is too short to be useful.
fn read_info(info: &[u8], into: &mut Connection) -> bool {
    let Some(counters) = TcpCounters::of(info) else {
        return false;
    };
    into.acked = counters.acked;
    into.rtt = (!counters.rtt.is_zero()).then_some(counters.rtt);
    into.cwnd = counters.cwnd;
    into.retransmits = counters.retransmits;
    into.timeouts = counters.timeouts;
    true
}

/// What looking at one connection again and again has told.
#[derive(Default)]
pub struct History {
    /// Bytes written by then; both never go back.
    written: Vec<(Time, u64)>,
    rtts: Vec<(Time, Span)>,
    last: Connection,
}

impl History {
    /// Of one who wrote down when how many bytes had been written.
    pub(crate) fn of_writes(written: Vec<(Time, u64)>) -> Self {
        Self {
            written,
            ..Self::default()
        }
    }

    /// Adds a look. The connection with the most bytes is the one that is meant: others are probes.
    pub fn add(&mut self, at: Time, connections: Vec<Connection>) {
        let Some(now) = connections.into_iter().max_by_key(|c| c.written) else {
            return;
        };
        if self.written.last().is_none_or(|(_, n)| *n < now.written) {
            self.written.push((at, now.written));
        }
        if let Some(rtt) = now.rtt {
            self.rtts.push((at, rtt));
        }
        self.last = now;
    }

    /// The latest look.
    pub fn last(&self) -> &Connection {
        &self.last
    }

    /// When byte number `offset` (from 1) was written, to [`PERIOD`] at worst. Between two samples
    /// bytes are taken to have been written evenly. `None` if no look saw it.
    fn written_at(&self, offset: u64) -> Option<Time> {
        let after = self.written.partition_point(|(_, n)| *n < offset);
        let (to, n) = *self.written.get(after)?;
        let Some((mut from, m)) = after.checked_sub(1).map(|i| self.written[i]) else {
            return Some(to);
        };
        // Nothing changed for long and then something did: it was written within the last period.
        from = from.max(Time::from_nanos(
            to.as_nanos().saturating_sub(PERIOD.as_nanos()),
        ));
        let share = (offset - m) as f64 / (n - m) as f64;
        Some(from + to.since(from).mul_f64(share))
    }

    /// Median and 95th percentile, per byte, of the time from write to read, in ms. `reads` are
    /// (when, bytes read by then).
    pub fn app_delay_ms(&self, reads: &[(Time, u64)], from: Time, to: Time) -> Option<[f64; 2]> {
        let mut delays = Distribution::new();
        let mut before = 0;
        for (at, offset) in reads {
            let bytes = offset - before;
            before = *offset;
            if *at < from || *at >= to {
                continue;
            }
            if let Some(written) = self.written_at(*offset) {
                delays.add(at.since(written), bytes);
            }
        }
        Some([delays.quantile_ms(0.5)?, delays.quantile_ms(0.95)?])
    }

    /// Mean and 95th percentile of the smoothed round trip in `from..to`, in ms.
    pub fn rtt_ms(&self, from: Time, to: Time) -> Option<[f64; 2]> {
        let mut all = Distribution::new();
        for (at, rtt) in &self.rtts {
            if *at >= from && *at < to {
                all.add(*rtt, 1);
            }
        }
        Some([all.mean_ms()?, all.quantile_ms(0.95)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    fn ms(n: u64) -> Time {
        Time::from_millis(n)
    }

    fn wrote(written: u64) -> Vec<Connection> {
        vec![Connection {
            written,
            rtt: Some(Span::from_millis(40)),
            ..Connection::default()
        }]
    }

    #[test]
    fn write_times_are_between_the_looks_that_enclose_them() {
        let mut history = History::default();
        history.add(ms(0), wrote(0));
        history.add(ms(5), wrote(1_000));
        history.add(ms(10), wrote(1_000));
        history.add(ms(100), wrote(2_000));
        assert_eq!(history.written_at(500), Some(Time::from_nanos(2_500_000)));
        assert_eq!(history.written_at(1_000), Some(ms(5)));
        // Quiet from 5 to 95 ms as far as anyone knows.
        assert_eq!(
            history.written_at(1_500),
            Some(Time::from_nanos(97_500_000))
        );
        assert_eq!(history.written_at(2_001), None);
        // 1000 bytes after 25 - 5 = 20 ms, 1000 after 200 - 100 = 100 ms; the read at 300 ms is
        // outside.
        let reads = [(ms(25), 1_000), (ms(200), 2_000), (ms(300), 2_000)];
        let [median, p95] = history.app_delay_ms(&reads, ms(0), ms(250)).unwrap();
        assert!(
            (median - 20.0).abs() < 0.1 && (p95 - 100.0).abs() < 0.1,
            "{median} {p95}"
        );
        assert_eq!(history.app_delay_ms(&reads, ms(0), ms(10)), None);
        assert_eq!(history.rtt_ms(ms(0), ms(50)).map(|r| r[0]), Some(40.0));
    }

    #[test]
    fn probes_beside_the_transfer_are_not_mistaken_for_it() {
        let mut history = History::default();
        let both = [wrote(10), wrote(5_000)].concat();
        history.add(ms(1), both);
        history.add(ms(2), Vec::new());
        assert_eq!(history.last().written, 5_000);
    }

    /// The kernel itself: what we write is what it says was written.
    #[test]
    fn a_real_connection_shows_what_was_written() {
        let Ok(mut diagnosis) = SockDiag::open() else {
            eprintln!("skipped: needs the kernel's socket diagnosis (INET_DIAG)");
            return;
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(&[7; 50_000]).unwrap();
        let mut back = vec![0; 50_000];
        client.read_exact(&mut back).unwrap();
        let Ok(found) = diagnosis.connections(port) else {
            eprintln!("skipped: needs the kernel's socket diagnosis (INET_DIAG)");
            return;
        };
        // Another test's connection may have the same port at another address of this machine.
        let peer = client.local_addr().unwrap().port();
        let ours: Vec<_> = found.iter().filter(|seen| seen.peer == peer).collect();
        let [seen] = ours[..] else {
            panic!("expected one connection to port {peer}: {found:?}");
        };
        assert_eq!(seen.written, 50_000);
        assert!(
            seen.rtt.is_some() && seen.cwnd > 0 && !seen.congestion.is_empty(),
            "{seen:?}"
        );
    }

    /// A closed connection is seen by its number, in both ways, until its peer has all.
    #[test]
    fn a_closed_connection_is_seen_alone_and_among_all() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, remote) = listener.accept().unwrap();
        let local = server.local_addr().unwrap();
        let cookie = alcc_sys::cookie(server.as_raw_fd()).unwrap();
        server.set_nonblocking(true).unwrap();
        let (mut server, mut written) = (server, 0);
        while let Ok(n) = server.write(&[7; 65_536]) {
            written += n;
        }
        let Ok(mut diagnosis) = SockDiag::open() else {
            eprintln!("skipped: needs the kernel's socket diagnosis (INET_DIAG)");
            return;
        };
        assert!(!diagnosis.closed(true).unwrap().contains_key(&cookie));
        drop(server);
        let all = diagnosis.closed(true).unwrap();
        let alone = diagnosis.remains(local, remote, cookie).unwrap();
        for seen in [all.get(&cookie), Some(&alone)] {
            let Some(Remains::Sends(reading)) = seen else {
                panic!("{seen:?}");
            };
            assert!(reading.progress.in_buffer().get() > 0, "{reading:?}");
        }
        io::copy(
            &mut Read::by_ref(&mut client).take(written as u64),
            &mut io::sink(),
        )
        .unwrap();
        while diagnosis.closed(true).unwrap().contains_key(&cookie) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}
