// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The client: the end that requests a recording.
use crate::error::RecordError;
use crate::plan::{MAX_LEN, Plan};
use crate::recording::Recording;
use crate::session::{End, Phase, Role, Session};
use crate::socket::{Burst, Socket};
use crate::wire::Packet;
use alcc_sys::now;
use alcc_udp::cookie::unguessable;
use alcc_units::{Span, Time};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

/// Time between two attempts at the handshake.
const RETRY_INTERVAL: Span = Span::from_millis(250);
/// Maximum sleep: signals are handled within this time.
const MAX_SLEEP: Span = Span::from_millis(100);
/// Time with only "connection refused" from the network after which the listener counts as ended.
const MAX_REFUSED: Span = Span::from_secs(3);

/// A request for a recording.
#[derive(Clone, Debug)]
pub struct Request {
    /// The listener's address.
    pub to: SocketAddr,
    /// The local address to use.
    pub from: Option<IpAddr>,
    /// The plan of the recording.
    pub plan: Plan,
    /// The client's name for the listener.
    pub label: String,
    /// Maximum time to wait for an answer.
    pub patience: Span,
}

/// Records a channel. `watch` is called some ten times a second. Raising `stop` ends it early; the
/// data recorded so far is kept.
///
/// # Errors
/// There is no answer, the listener refuses, the packets do not fit the path, or the socket fails.
/// After the recording has begun, all errors are reported in it.
pub fn record(
    request: &Request,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&Session, Time),
) -> Result<Recording, RecordError> {
    if let Some(problem) = request.plan.problem() {
        return Err(RecordError::Impossible(problem));
    }
    let mut socket = Socket::connect(request.to, request.from).map_err(RecordError::socket(
        format!("open a socket to {}", request.to),
    ))?;
    let id = handshake(&mut socket, request, stop)?;
    let mut session = Session::new(Role::Client, id, request.plan.clone(), now());
    run(&mut socket, &mut session, stop, watch).map_err(RecordError::socket(format!(
        "exchange packets with {}",
        request.to
    )))?;
    Ok(Recording::of(
        &session,
        request.to.to_string(),
        request.label.clone(),
    ))
}

fn handshake(
    socket: &mut Socket,
    request: &Request,
    stop: &AtomicBool,
) -> Result<u64, RecordError> {
    let to = request.to;
    let nonce = unguessable().map_err(RecordError::socket("get a random number"))?;
    let size = usize::from(request.plan.size);
    let (mut packet, mut refused) = (Packet::Hello { nonce }, false);
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; usize::from(MAX_LEN)]);
    let end = now() + request.patience;
    let mut again = now();
    while now() < end && !stop.load(Ordering::Relaxed) {
        if now() >= again {
            again = now() + RETRY_INTERVAL;
            bytes.clear();
            packet.encode(&mut bytes, size);
            match socket.send(None, &bytes, bytes.len()) {
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => refused = true,
                Err(e) if e.raw_os_error() == Some(nix::libc::EMSGSIZE) => {
                    return Err(RecordError::TooLarge { to, size });
                }
                other => other.map_err(RecordError::socket(format!("send to {to}")))?,
            }
        }
        socket
            .wait(again.min(end))
            .map_err(RecordError::socket("wait for packets"))?;
        socket.begin();
        loop {
            let (len, ..) = match socket.receive(&mut buffer) {
                Ok(Some(got)) => got,
                Ok(None) => break,
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
                    refused = true;
                    break;
                }
                Err(e) => return Err(RecordError::socket(format!("receive from {to}"))(e)),
            };
            match Packet::decode(&buffer[..len]) {
                Some(Packet::Challenge { nonce: n, cookie }) if n == nonce => {
                    packet = Packet::Start {
                        nonce,
                        cookie,
                        plan: request.plan.clone(),
                        label: request.label.clone(),
                    };
                    again = now();
                }
                Some(Packet::Ready { nonce: n, session }) if n == nonce => return Ok(session),
                Some(Packet::Refused { nonce: n, why }) if n == nonce => {
                    return Err(RecordError::Refused { to, why });
                }
                _ => {}
            }
        }
    }
    if stop.load(Ordering::Relaxed) {
        return Err(RecordError::Stopped);
    }
    if refused {
        return Err(RecordError::NobodyListens { to });
    }
    Err(RecordError::NoAnswer {
        to,
        size,
        patience: request.patience,
    })
}

fn run(
    socket: &mut Socket,
    session: &mut Session,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&Session, Time),
) -> std::io::Result<()> {
    let mut buffer = vec![0; usize::from(MAX_LEN) + 1];
    let mut burst = Burst::default();
    let mut shown = now();
    loop {
        let present = socket.begin();
        let mut refused = false;
        loop {
            match socket.receive(&mut buffer) {
                Ok(Some((len, _, at))) => {
                    if let Some(Packet::Session(packet)) = Packet::decode(&buffer[..len]) {
                        session.handle(at, packet);
                    }
                }
                Ok(None) => break,
                // "Connection refused" may be only temporary. There may be packets behind it.
                Err(e) if is_passing(&e) => refused |= e.kind() == ErrorKind::ConnectionRefused,
                Err(e) => return Err(e),
            }
        }
        session.overrun(socket.overrun());
        if stop.load(Ordering::Relaxed) {
            session.stop();
        }
        match burst.send_all(socket, None, |to| session.poll(now(), to)) {
            Err(e) if is_passing(&e) => refused |= e.kind() == ErrorKind::ConnectionRefused,
            other => other?,
        }
        if refused && present.since(session.last_received()) > MAX_REFUSED {
            session.lose(End::Silent(session.last_received()));
        }
        if present.since(shown) >= MAX_SLEEP {
            shown = present;
            watch(session, present);
        }
        let next = session.next_timer(now());
        if matches!(session.phase(), Phase::Done(_)) && next == Time::MAX {
            return Ok(());
        }
        socket.wait(next.min(now() + MAX_SLEEP))?;
    }
}

/// True for temporary errors that an outage may cause.
pub(crate) fn is_passing(e: &std::io::Error) -> bool {
    matches!(
        e.kind(),
        ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable
    ) || matches!(
        e.raw_os_error(),
        Some(nix::libc::EMSGSIZE | nix::libc::EPERM | nix::libc::ENETDOWN)
    )
}
