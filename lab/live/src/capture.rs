// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A simulated run as a packet capture: pcap with nanoseconds, IPv4 and the headers that the flows
//! would have. Payload is left out, as in a capture with a short snapshot length.
use alcc_sim::{PacketContent, PacketEvent, PacketStep, Probe};
use alcc_units::Time;
use etherparse::{IpNumber, Ipv4Header, TcpHeader, TcpOptionElement, UdpHeader};
use std::io::{self, Write};

/// Place of the capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CapturePoint {
    /// At the hosts that send data: what they send and the acknowledgements that reach them.
    #[default]
    Sender,
    /// At the hosts that receive it.
    Receiver,
    /// Behind the bottleneck of the first link, in both directions.
    Link,
}

impl std::str::FromStr for CapturePoint {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text {
            "sender" => Ok(Self::Sender),
            "receiver" => Ok(Self::Receiver),
            "link" => Ok(Self::Link),
            _ => Err("want sender, receiver or link"),
        }
    }
}

/// Nanoseconds, in the byte order of the machine that reads the number.
const MAGIC: u32 = 0xa1b2_3c4d;
/// Raw IP.
const LINK_TYPE: u32 = 101;
/// Maximum length of a packet, bytes.
const SNAP_LEN: u32 = 65_535;
/// Window scale of the receivers: their windows are far below 2^16 of these units.
const WINDOW_SCALE: u8 = 10;
const TTL: u8 = 64;
/// Port of the senders; the receivers have ephemeral ones.
const SERVER: u16 = 443;
const FIRST_CLIENT: u16 = 32_768;

/// Writes a capture as a run goes.
#[derive(Debug)]
pub struct Capture<W> {
    to: W,
    place: CapturePoint,
    /// True for each flow whose handshake has been written.
    opened: Vec<bool>,
    packet: Vec<u8>,
    zeros: Vec<u8>,
    failed: Option<io::Error>,
}

/// Ends a file that is written as events come. Nobody waits for single writes, so `failed` is the
/// first one that failed.
pub(crate) fn finish<W: Write>(mut to: W, failed: Option<io::Error>) -> io::Result<W> {
    match failed {
        Some(error) => Err(error),
        None => to.flush().map(|()| to),
    }
}

impl<W: Write> Capture<W> {
    /// Begins with the file's header.
    ///
    /// # Errors
    /// The error of the writer.
    pub fn new(mut to: W, place: CapturePoint) -> io::Result<Self> {
        to.write_all(&MAGIC.to_le_bytes())?;
        for half in [2_u16, 4] {
            to.write_all(&half.to_le_bytes())?;
        }
        for word in [0, 0, SNAP_LEN, LINK_TYPE] {
            to.write_all(&word.to_le_bytes())?;
        }
        Ok(Self {
            to,
            place,
            opened: Vec::new(),
            packet: Vec::new(),
            zeros: vec![0; SNAP_LEN as usize],
            failed: None,
        })
    }

    /// Ends it.
    ///
    /// # Errors
    /// The first thing that could not be written.
    pub fn finish(self) -> io::Result<W> {
        finish(self.to, self.failed)
    }

    fn sees(&self, event: &PacketEvent) -> bool {
        let data = matches!(event.content, PacketContent::Data { .. });
        match (self.place, event.what) {
            (CapturePoint::Sender, PacketStep::Sent)
            | (CapturePoint::Receiver, PacketStep::Received) => data,
            (CapturePoint::Sender, PacketStep::Received)
            | (CapturePoint::Receiver, PacketStep::Sent) => !data,
            (CapturePoint::Link, PacketStep::Departed(at)) => at.link == 0,
            _ => false,
        }
    }

    fn write(&mut self, event: &PacketEvent) -> io::Result<()> {
        let flow = event.flow;
        match event.content {
            PacketContent::Data {
                stream: true,
                start,
                len,
                sent_at,
                echo,
                ..
            } => {
                self.open(event.at, flow)?;
                let mut tcp = TcpHeader::new(SERVER, client(flow), number(start), u16::MAX);
                (tcp.ack, tcp.acknowledgment_number) = (true, 1);
                tcp.psh = false;
                stamp(&mut tcp, sent_at, echo, &[])?;
                self.tcp(event.at, flow, true, tcp, len)
            }
            PacketContent::Ack { stream: true, ack } => {
                self.open(event.at, flow)?;
                let mut tcp = TcpHeader::new(client(flow), SERVER, 1, 0);
                (tcp.ack, tcp.acknowledgment_number) = (true, number(ack.cumulative_ack));
                let window = ack.window.get() >> WINDOW_SCALE;
                tcp.window_size = u16::try_from(window).unwrap_or(u16::MAX);
                let blocks: Vec<(u32, u32)> = (ack.blocks().iter())
                    .map(|r| (number(r.start), number(r.end)))
                    .collect();
                stamp(&mut tcp, ack.sent_at, ack.echo, &blocks)?;
                self.tcp(event.at, flow, false, tcp, 0)
            }
            PacketContent::Data { .. } => self.udp(event, true),
            PacketContent::Ack { .. } | PacketContent::Report => self.udp(event, false),
        }
    }

    /// The three packets of a connection's opening, which the simulator leaves out: readers learn
    /// the scale of windows from them.
    fn open(&mut self, at: Time, flow: usize) -> io::Result<()> {
        if self.opened.len() <= flow {
            self.opened.resize(flow + 1, false);
        }
        if std::mem::replace(&mut self.opened[flow], true) {
            return Ok(());
        }
        for (from_server, syn, ack) in [
            (false, true, false),
            (true, true, true),
            (false, false, true),
        ] {
            let (from, to) = match from_server {
                true => (SERVER, client(flow)),
                false => (client(flow), SERVER),
            };
            let mut tcp = TcpHeader::new(from, to, u32::from(!syn), u16::MAX);
            (tcp.syn, tcp.ack) = (syn, ack);
            tcp.acknowledgment_number = u32::from(ack);
            if syn {
                let options = [
                    TcpOptionElement::MaximumSegmentSize(1460),
                    TcpOptionElement::SelectiveAcknowledgementPermitted,
                    TcpOptionElement::Timestamp(tick(at), 0),
                    TcpOptionElement::Noop,
                    TcpOptionElement::WindowScale(WINDOW_SCALE),
                ];
                tcp.set_options(&options).map_err(io::Error::other)?;
            } else {
                stamp(&mut tcp, at, at, &[])?;
            }
            self.tcp(at, flow, from_server, tcp, 0)?;
        }
        Ok(())
    }

    fn tcp(
        &mut self,
        at: Time,
        flow: usize,
        from_server: bool,
        mut tcp: TcpHeader,
        payload: u64,
    ) -> io::Result<()> {
        let payload = usize::try_from(payload)
            .unwrap_or(0)
            .min(self.zeros.len() - 120);
        let ip = ip(flow, from_server, tcp.header_len() + payload, IpNumber::TCP)?;
        // The payload that is left out counts as zeros.
        let sum = tcp.calc_checksum_ipv4(&ip, &self.zeros[..payload]);
        tcp.checksum = sum.map_err(io::Error::other)?;
        self.packet.clear();
        ip.write(&mut self.packet)?;
        tcp.write(&mut self.packet)?;
        self.record(at, self.packet.len() + payload)
    }

    fn udp(&mut self, event: &PacketEvent, from_server: bool) -> io::Result<()> {
        let headers = Ipv4Header::MIN_LEN + UdpHeader::LEN;
        let len = usize::try_from(event.len.get()).unwrap_or(usize::MAX);
        let payload = len.min(SNAP_LEN as usize).saturating_sub(headers);
        let ip = ip(
            event.flow,
            from_server,
            UdpHeader::LEN + payload,
            IpNumber::UDP,
        )?;
        let (from, to) = match from_server {
            true => (SERVER, client(event.flow)),
            false => (client(event.flow), SERVER),
        };
        let udp = UdpHeader::with_ipv4_checksum(from, to, &ip, &self.zeros[..payload]);
        self.packet.clear();
        ip.write(&mut self.packet)?;
        udp.map_err(io::Error::other)?.write(&mut self.packet)?;
        self.record(event.at, headers + payload)
    }

    fn record(&mut self, at: Time, whole: usize) -> io::Result<()> {
        let ns = at.as_nanos();
        let (seconds, ns) = ((ns / 1_000_000_000) as u32, (ns % 1_000_000_000) as u32);
        for word in [seconds, ns, self.packet.len() as u32, whole as u32] {
            self.to.write_all(&word.to_le_bytes())?;
        }
        self.to.write_all(&self.packet)
    }
}

impl<W: Write> Probe for Capture<W> {
    fn packet(&mut self, event: &PacketEvent) {
        if self.failed.is_none() && self.sees(event) {
            self.failed = self.write(event).err();
        }
    }
}

/// A position in the stream as a sequence number: the opening has number 0.
const fn number(position: u64) -> u32 {
    position.wrapping_add(1) as u32
}

/// A time stamp: milliseconds, never 0.
const fn tick(at: Time) -> u32 {
    (at.as_nanos() / 1_000_000 + 1) as u32
}

fn stamp(tcp: &mut TcpHeader, at: Time, echo: Time, blocks: &[(u32, u32)]) -> io::Result<()> {
    let mut options = vec![
        TcpOptionElement::Noop,
        TcpOptionElement::Noop,
        TcpOptionElement::Timestamp(tick(at), tick(echo)),
    ];
    // Beside time stamps there is room for three.
    if let Some((first, rest)) = blocks.split_first() {
        let more = [rest.first().copied(), rest.get(1).copied(), None];
        options.extend([TcpOptionElement::Noop, TcpOptionElement::Noop]);
        options.push(TcpOptionElement::SelectiveAcknowledgement(*first, more));
    }
    tcp.set_options(&options).map_err(io::Error::other)
}

/// 10.0.x.y serves, 10.1.x.y receives; x.y from the flow's number.
fn ip(flow: usize, from_server: bool, len: usize, what: IpNumber) -> io::Result<Ipv4Header> {
    let end = |net: u8| [10, net, (flow / 250) as u8, (flow % 250 + 1) as u8];
    let (from, to) = match from_server {
        true => (end(0), end(1)),
        false => (end(1), end(0)),
    };
    let len = u16::try_from(len).map_err(io::Error::other)?;
    let mut ip = Ipv4Header::new(len, TTL, what, from, to).map_err(io::Error::other)?;
    ip.header_checksum = ip.calc_header_checksum();
    Ok(ip)
}

const fn client(flow: usize) -> u16 {
    FIRST_CLIENT + (flow % 28_000) as u16
}
