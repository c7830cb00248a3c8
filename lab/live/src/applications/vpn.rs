// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A VPN over TCP: OpenVPN, whose server sends as the scheme says. Two things compete inside it.
//! One is a download over plain TCP (nginx and curl). The other is datagrams at a constant rate,
//! such as a call sends. Once with the queue that Linux puts before a tunnel, once with a short
//! one.
use super::stage::{Ready, Stage, nothing};
use super::{Application, Figures, How};
use crate::LabError;
use crate::client::Client;
use crate::scheme::Scheme;
use crate::server::{Listen, PORT, Server, make_download};
use alcc_emu::Namespace;
use alcc_results::percentile;
use alcc_units::{Span, Time};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(super) const VPN: Application = application("vpn", |stage| run(stage, None));
pub(super) const VPN_SHORT: Application = application("vpn-short", |stage| run(stage, Some(SHORT)));

const fn application(
    name: &'static str,
    run: fn(&Stage<'_>) -> Result<Figures, LabError>,
) -> Application {
    Application {
        name,
        programs: "openvpn, nginx, curl",
        metrics: &[
            "tcp_mbps",
            "datagram_delay_median_ms",
            "datagram_delay_p95_ms",
            "datagram_loss",
        ],
        how: How::Staged {
            prepare: nothing,
            run,
        },
    }
}

/// Packets that may wait before the tunnel; Linux lets 500 wait. 24 ms at 10 Mbit/s.
const SHORT: u32 = 20;
const VPN_PORT: u16 = 1194;
/// Ends of the tunnel: the server's, the client's.
const TUNNEL: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 99, 0, 1), Ipv4Addr::new(10, 99, 0, 2)];
/// 200 bytes each 20 ms are 80 kbit/s: a voice call.
const DATAGRAM: usize = 200;
const EVERY: Duration = Duration::from_millis(20);
const DATAGRAM_PORT: u16 = 5004;
/// A datagram that comes later is lost.
const LATE: Duration = Duration::from_secs(3);

/// `queue`: packets that may wait before the tunnel; `None`: as many as the kernel lets wait.
fn run(stage: &Stage<'_>, queue: Option<u32>) -> Result<Figures, LabError> {
    let openvpn = stage.find("openvpn", "openvpn")?;
    let key = stage.path("key");
    let mut make = Command::new(&openvpn);
    make.args(["--genkey", "secret"]).arg(&key);
    stage.ask("key-maker", make)?;
    let common = |command: &mut Command, own: Ipv4Addr, other: Ipv4Addr| {
        command.args(["--dev", "tun", "--verb", "3", "--cipher", "AES-256-CBC"]);
        command.args(["--ifconfig", &own.to_string(), &other.to_string()]);
        command.arg("--secret").arg(&key);
    };
    let mut tunnel = stage.serve(
        &openvpn,
        |command| {
            command.args(["--proto", "tcp-server", "--port", &VPN_PORT.to_string()]);
            common(command, TUNNEL[0], TUNNEL[1]);
            if let Some(packets) = queue {
                command.args(["--txqueuelen", &packets.to_string()]);
            }
        },
        &Ready::Says("Listening for incoming TCP connection"),
    )?;
    let mut command = Command::new(&openvpn);
    command.args(["--proto", "tcp-client", "--connect-retry", "1"]);
    command.args(["--remote", &stage.from.to_string(), &VPN_PORT.to_string()]);
    common(&mut command, TUNNEL[1], TUNNEL[0]);
    let mut client = stage.start(command, "openvpn")?;
    let log = stage.path("openvpn");
    client.wait_until("the tunnel", || {
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        Ok(said.contains("Initialization Sequence Completed"))
    })?;
    let mut inner = inner_server(stage)?;

    let origin = stage.begin()?;
    let end = origin + stage.duration;
    let datagrams = Datagrams::start(&stage.ends.sender, &stage.ends.receiver, origin, end)?;
    let server = SocketAddrV4::new(TUNNEL[0], PORT);
    let download = Client::start(&stage.ends.receiver, &stage.tools.curl()?, server, origin)?;
    stage.wait(end)?;
    let reads = download.stop();
    inner.check("the server inside the tunnel ended")?;
    let (sent, mut delays) = datagrams.finish()?;
    drop(inner);
    drop(client);
    tunnel.check()?;
    tunnel.end(stage)?;
    let window = [Time::ZERO, Time::ZERO + Span::from(stage.duration)];
    let bytes = reads
        .payload(window[0], window[1])
        .ok_or_else(|| stage.failed("the server inside the tunnel answered nothing"))?;
    let mbps = bytes as f64 * 8e-6 / stage.duration.as_secs_f64();
    let lost = sent.saturating_sub(delays.len()) as f64 / sent.max(1) as f64;
    let mut figures = Figures::from([
        ("tcp_mbps".to_owned(), mbps),
        ("datagram_loss".to_owned(), lost),
    ]);
    delays.sort_by(f64::total_cmp);
    for (name, percent) in [
        ("datagram_delay_median_ms", 50),
        ("datagram_delay_p95_ms", 95),
    ] {
        let value = percentile(&delays, percent);
        let value = value.ok_or_else(|| stage.failed("no datagram came through the tunnel"))?;
        figures.insert(name.to_owned(), value);
    }
    Ok(figures)
}

/// A plain nginx, reached through the tunnel: the scheme is that of the tunnel.
fn inner_server(stage: &Stage<'_>) -> Result<Server, LabError> {
    let (www, folder) = (stage.path("www"), stage.make_folder("nginx")?);
    make_download(&www)?;
    let plain = Scheme {
        controlled: None,
        ..stage.scheme.clone()
    };
    let (sender, tools) = (&stage.ends.sender, stage.tools);
    Server::start(
        sender,
        &plain,
        tools,
        &folder,
        &www,
        None,
        Listen::default(),
    )
}

/// Datagrams with the time of their sending, through the tunnel.
struct Datagrams {
    sender: JoinHandle<Result<usize, alcc_emu::EmuError>>,
    receiver: JoinHandle<Result<Vec<f64>, alcc_emu::EmuError>>,
}

impl Datagrams {
    fn start(
        from: &Namespace,
        to: &Namespace,
        origin: Instant,
        end: Instant,
    ) -> Result<Self, LabError> {
        let bind = |address: Ipv4Addr, port: u16| UdpSocket::bind((address, port));
        let sink = to.run(|| {
            let sink = bind(TUNNEL[1], DATAGRAM_PORT)?;
            sink.set_read_timeout(Some(Duration::from_millis(50)))?;
            Ok(sink)
        })?;
        let sink = sink.map_err(LabError::os::<std::io::Error>("listen inside the tunnel"))?;
        let source = from.run(|| bind(TUNNEL[0], 0))?;
        let source = source.map_err(LabError::os("send into the tunnel"))?;
        let sender = from.spawn_thread("alcc-datagrams", move || {
            let mut sent = 0;
            let mut next = origin;
            let mut datagram = [0; DATAGRAM];
            while next < end {
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
                let at = origin.elapsed().as_nanos() as u64;
                datagram[..8].copy_from_slice(&at.to_be_bytes());
                // What the tunnel does not take is lost.
                let _ = source.send_to(&datagram, (TUNNEL[1], DATAGRAM_PORT));
                sent += 1;
                next += EVERY;
            }
            sent
        })?;
        let receiver = to.spawn_thread("alcc-datagrams", move || {
            let mut delays = Vec::new();
            let mut datagram = [0; DATAGRAM];
            while Instant::now() < end + LATE {
                let Ok(size) = sink.recv(&mut datagram) else {
                    continue;
                };
                if let Some(Ok(at)) = datagram[..size].get(..8).map(<[u8; 8]>::try_from) {
                    let now = origin.elapsed().as_nanos() as u64;
                    delays.push(now.saturating_sub(u64::from_be_bytes(at)) as f64 / 1e6);
                }
            }
            delays
        })?;
        Ok(Self { sender, receiver })
    }

    /// Number of sent packets, and the delays of those that arrived, ms.
    fn finish(self) -> Result<(usize, Vec<f64>), LabError> {
        let sent = self.sender.join();
        let came = self.receiver.join();
        let sent = sent.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let came = came.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok((sent, came))
    }
}
