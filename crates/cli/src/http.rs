// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A few pages over HTTP: metrics, `alcc top --web`, the switches of an emulated link.
//!
//! A client asks for one page and has its answer. Others cost at most [`MAX_READERS`] threads for
//! [`REQUEST_TIMEOUT`] each, and [`MAX_REQUEST`] bytes.
use crate::failure::{Failure, reason};
use crate::output::not_made;
use alcc_proxy::Listen;
use alcc_sys::PathListener;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Maximum number of clients at a time.
pub(crate) const MAX_READERS: usize = 16;
/// Length of the queue of clients.
const BACKLOG: i32 = 64;
/// Timeout for a request and its answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum length of a request, bytes.
const MAX_REQUEST: usize = 8192;

/// Where to listen: `127.0.0.1:9101`, `[::1]:9101`, `:9101` or a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Address(Listen),
    Path(PathBuf),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            return Ok(Self::Path(text.into()));
        }
        match text.parse::<Listen>() {
            // Nobody would know which one the kernel has chosen.
            Ok(Listen { port: 0, .. }) => Err(format!(
                "'{text}': port 0 is any port, which nobody would find: choose one, such as :9101"
            )),
            Ok(address) => Ok(Self::Address(address)),
            Err(_) => Err(format!(
                "'{text}' is no place to listen: write 127.0.0.1:9101, :9101 or a path with a /"
            )),
        }
    }
}

/// An address of loopback: who is not on this machine does not reach it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loopback(pub(crate) SocketAddr);

impl FromStr for Loopback {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address = text.parse::<SocketAddr>().ok();
        let loopback = address.filter(|a| a.ip().is_loopback());
        loopback.map(Self).ok_or_else(|| {
            format!("'{text}' is no address of loopback with a port: write 127.0.0.1:9102")
        })
    }
}

pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

/// Nobody can listen there. `option` is who asks for it.
pub(crate) fn not_listening(
    at: impl std::fmt::Display,
    option: &str,
    error: &std::io::Error,
) -> Failure {
    let why = reason(error);
    let help = match error.kind() {
        std::io::ErrorKind::AddrInUse => ": stop what listens there, or choose another place",
        std::io::ErrorKind::AlreadyExists => ": choose another path",
        std::io::ErrorKind::AddrNotAvailable => ": no address of this machine; 127.0.0.1 is one",
        _ => "",
    };
    Failure::usage(format!("listen on {at} for {option}: {why}{help}"))
}

/// What is asked for.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
    /// The names of this machine that the client used, and of the page that sends it.
    host: Option<String>,
    origin: Option<String>,
}

impl Request {
    /// Whether it comes from a program, or from a page of this server. A page from elsewhere could
    /// else send its visitor's browser here, under a name that leads to this machine.
    pub(crate) fn is_ours(&self) -> bool {
        let name = self.host.as_deref().unwrap_or("127.0.0.1");
        let address = name.parse().map(|a: SocketAddr| a.ip());
        let address = address.or_else(|_| name.trim_matches(['[', ']']).parse::<IpAddr>());
        let here = name.split(':').next() == Some("localhost") || address.is_ok();
        let own_page = |origin: &str| origin.strip_prefix("http://") == Some(name);
        here && self.origin.as_deref().is_none_or(own_page)
    }
}

/// What is answered.
pub(crate) struct Answer {
    status: &'static str,
    kind: &'static str,
    body: String,
}

impl Answer {
    pub(crate) fn new(status: &'static str, kind: &'static str, body: String) -> Self {
        Self { status, kind, body }
    }

    pub(crate) fn json(value: &serde_json::Value) -> Self {
        Self::new("200 OK", "application/json", format!("{value}\n"))
    }

    /// What is wrong, as one line.
    pub(crate) fn wrong(status: &'static str, why: impl std::fmt::Display) -> Self {
        Self::new(status, "text/plain; charset=utf-8", format!("{why}\n"))
    }
}

/// Answers requests.
pub(crate) type Handler = Arc<dyn Fn(&Request) -> Answer + Send + Sync>;

/// The listening socket; a path is removed when it is dropped.
pub(crate) struct Server {
    _path: Option<PathListener>,
}

/// Connections of both kinds.
trait Stream: Read + Write + Send {
    fn patience(&self, left: Duration) -> std::io::Result<()>;
}

impl Stream for TcpStream {
    fn patience(&self, left: Duration) -> std::io::Result<()> {
        self.set_read_timeout(Some(left))?;
        self.set_write_timeout(Some(left))
    }
}

impl Stream for UnixStream {
    fn patience(&self, left: Duration) -> std::io::Result<()> {
        self.set_read_timeout(Some(left))?;
        self.set_write_timeout(Some(left))
    }
}

impl Server {
    /// Listens, and answers from threads of its own until the program ends. `option` is who asks
    /// for it.
    pub(crate) fn start(place: &Place, option: &str, handler: Handler) -> Result<Self, Failure> {
        let failed = |what: String| move |e: std::io::Error| not_listening(what, option, &e);
        let not_at = |path: &Path, e| failed(path.display().to_string())(not_made(path, e));
        let (listener, path) = match place {
            Place::Address(at) => {
                let listener = at.open(BACKLOG).map_err(failed(at.to_string()))?;
                listener
                    .set_nonblocking(false)
                    .map_err(failed(at.to_string()))?;
                (Listener::Tcp(listener), None)
            }
            Place::Path(path) => {
                let bound = PathListener::bind(path).map_err(|e| not_at(path, e))?;
                let listener = bound.listener().try_clone();
                let listener = listener.map_err(|e| not_at(path, e))?;
                (Listener::Unix(listener), Some(bound))
            }
        };
        Self::on(listener, option, handler)?;
        Ok(Self { _path: path })
    }

    /// Answers on a socket that listens.
    pub(crate) fn on(
        listener: impl Into<Listener>,
        option: &str,
        handler: Handler,
    ) -> Result<(), Failure> {
        let listener = listener.into();
        spawn("alcc-http", move || serve(&listener, &handler))
            .map(drop)
            .map_err(|e| Failure::usage(format!("start a thread for {option}: {e}")))
    }
}

/// A thread that takes no signals: they are meant for the program.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<std::thread::JoinHandle<T>> {
    alcc_sys::spawn(std::thread::Builder::new().name(name.to_owned()), work)
}

fn serve(listener: &Listener, handler: &Handler) {
    let busy = Arc::new(AtomicUsize::new(0));
    loop {
        let stream: std::io::Result<Box<dyn Stream>> = match listener {
            Listener::Tcp(listener) => listener.accept().map(|(s, _)| Box::new(s) as _),
            Listener::Unix(listener) => listener.accept().map(|(s, _)| Box::new(s) as _),
        };
        let Ok(stream) = stream else {
            // For example, no descriptor is left. Others may free some.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        let Some(place) = ReaderSlot::take(&busy) else {
            continue;
        };
        let handler = Arc::clone(handler);
        // Whatever goes wrong with one client is that client's; without a thread the place is free
        // again at once.
        drop(spawn("alcc-http", move || {
            let _place = place;
            let _ = answer(stream, &handler);
        }));
    }
}

/// One of [`MAX_READERS`] places; given back when dropped, whatever becomes of its thread.
struct ReaderSlot(Arc<AtomicUsize>);

impl ReaderSlot {
    fn take(busy: &Arc<AtomicUsize>) -> Option<Self> {
        let place = Self(Arc::clone(busy));
        (busy.fetch_add(1, Ordering::AcqRel) < MAX_READERS).then_some(place)
    }
}

impl Drop for ReaderSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn answer(mut stream: Box<dyn Stream>, handler: &Handler) -> std::io::Result<()> {
    let end = Instant::now() + REQUEST_TIMEOUT;
    let left = || end.saturating_duration_since(Instant::now());
    let mut received = Vec::new();
    let mut piece = [0; 1024];
    let request = loop {
        match parse(&received) {
            Parsed::Whole(request) => break Ok(request),
            Parsed::Wrong => break Err(()),
            Parsed::Part => {}
        }
        let left = left();
        if left.is_zero() || received.len() > MAX_REQUEST {
            return Ok(());
        }
        stream.patience(left)?;
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            n => received.extend_from_slice(&piece[..n]),
        }
    };
    let answer = request.map_or_else(
        |()| Answer::wrong("400 Bad Request", "this is no HTTP/1.1 request"),
        |request| handler(&request),
    );
    let text = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{}",
        answer.status,
        answer.kind,
        answer.body.len(),
        answer.body
    );
    let mut rest = text.as_bytes();
    while !rest.is_empty() && !left().is_zero() {
        stream.patience(left())?;
        let n = stream.write(rest)?;
        rest = rest.get(n.max(1)..).unwrap_or_default();
    }
    Ok(())
}

enum Parsed {
    Whole(Request),
    Part,
    Wrong,
}

fn parse(received: &[u8]) -> Parsed {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Request::new(&mut headers);
    let begins = match head.parse(received) {
        Ok(httparse::Status::Complete(begins)) => begins,
        Ok(httparse::Status::Partial) => return Parsed::Part,
        Err(_) => return Parsed::Wrong,
    };
    let header = |name: &str| {
        let found = head
            .headers
            .iter()
            .find(|h| h.name.eq_ignore_ascii_case(name));
        found.and_then(|h| std::str::from_utf8(h.value).ok().map(str::to_owned))
    };
    let length = header("content-length").map_or(Ok(0), |n| n.trim().parse::<usize>());
    let Some(length) = length.ok().filter(|n| *n <= MAX_REQUEST) else {
        return Parsed::Wrong;
    };
    let Some(body) = received.get(begins..begins + length) else {
        return Parsed::Part;
    };
    Parsed::Whole(Request {
        method: head.method.unwrap_or_default().to_owned(),
        path: head.path.unwrap_or_default().to_owned(),
        body: body.to_vec(),
        host: header("host"),
        origin: header("origin"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<Request> {
        match parse(text.as_bytes()) {
            Parsed::Whole(request) => Some(request),
            _ => None,
        }
    }

    #[test]
    fn a_request_is_whole_with_its_body() {
        let head = "PUT /down HTTP/1.1\r\nHost: 127.0.0.1:80\r\nContent-Length: 2\r\n\r\n";
        assert!(matches!(parse(head.as_bytes()), Parsed::Part));
        let request = parsed(&format!("{head}{{}}")).unwrap();
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("PUT", "/down")
        );
        assert_eq!(request.body, b"{}");
        for wrong in [
            "\0\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n",
        ] {
            assert!(matches!(parse(wrong.as_bytes()), Parsed::Wrong), "{wrong}");
        }
    }

    #[test]
    fn pages_from_elsewhere_are_not_ours() {
        for (host, origin, ours) in [
            ("127.0.0.1:7", "", true),
            ("[::1]:7", "", true),
            ("localhost:7", "http://localhost:7", true),
            ("127.0.0.1:7", "http://evil.example", false),
            ("evil.example:7", "", false),
            ("evil.example:7", "http://evil.example:7", false),
        ] {
            let origin = match origin {
                "" => String::new(),
                name => format!("Origin: {name}\r\n"),
            };
            let request = parsed(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n{origin}\r\n"));
            assert_eq!(request.unwrap().is_ours(), ours, "{host} {origin}");
        }
    }

    #[test]
    fn places() {
        let path = |text: &str| text.parse::<Place>().unwrap();
        assert_eq!(path("./m.sock"), Place::Path("./m.sock".into()));
        assert_eq!(
            path(":9101"),
            Place::Address(Listen {
                ip: None,
                port: 9101
            })
        );
        assert_eq!(
            path("[::1]:9101"),
            Place::Address("[::1]:9101".parse().unwrap())
        );
        assert!(
            "localhost"
                .parse::<Place>()
                .unwrap_err()
                .contains("127.0.0.1:9101")
        );
    }

    #[test]
    fn a_place_is_given_back_by_a_thread_that_panics() {
        let busy = Arc::new(AtomicUsize::new(0));
        for _ in 0..3 * MAX_READERS {
            let place = ReaderSlot::take(&busy).expect("a place");
            let panics = std::thread::spawn(move || {
                let _place = place;
                std::panic::resume_unwind(Box::new(()));
            });
            assert!(panics.join().is_err());
        }
        let all: Vec<_> = (0..MAX_READERS)
            .map(|_| ReaderSlot::take(&busy).unwrap())
            .collect();
        assert!(ReaderSlot::take(&busy).is_none());
        drop(all);
        assert!(ReaderSlot::take(&busy).is_some());
    }

    #[test]
    fn an_address_of_loopback() {
        assert!("127.0.0.1:0".parse::<Loopback>().is_ok());
        assert!("[::1]:9102".parse::<Loopback>().is_ok());
        for wrong in [":9102", "0.0.0.0:1", "192.0.2.1:1", "localhost"] {
            assert!(wrong.parse::<Loopback>().is_err(), "{wrong}");
        }
    }
}
