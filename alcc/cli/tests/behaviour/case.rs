// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One line of `peer --list`: a case, and what the other end does meanwhile.

/// `GROUP NAME client=... clients=... address=... sndbuf=... gate=... connections=... cc=... under=...`
pub(crate) struct Case {
    pub(crate) group: String,
    pub(crate) name: String,
    pub(crate) client: Client,
    /// Number of clients, one after the other.
    pub(crate) clients: usize,
    pub(crate) address: String,
    /// Send buffer of the accepted connections, bytes; small where the case has to fill it.
    pub(crate) send_buffer: Option<String>,
    /// The gate has to shut at least once; where a program can only be left alone it need not.
    pub(crate) gated: bool,
    /// One more algorithm: it does what the case is about.
    pub(crate) algorithm: Option<String>,
    /// The kernel's congestion control below.
    pub(crate) under: Option<String>,
    /// Minimum number of controlled connections; otherwise one for each client.
    pub(crate) controlled: Option<u64>,
    /// None may be said to be controlled: all of it passes where the library cannot stand.
    pub(crate) passes: bool,
}

/// Behaviour of the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Client {
    /// Reads to the end.
    Drain,
    /// Waits first, so that every buffer on the way fills.
    Late,
    /// As `Late`; how much arrives is left to the case, as long as it is a prefix of the stream.
    LateAndAny,
    /// Sends a request first.
    Ask,
    /// Says at the end how much it got.
    Answer,
    /// Reads to the end; the order of lines is free, each must be whole.
    Lines,
    /// Reads to the end; only how often each byte came matters.
    Bag,
    /// Never reads; stays until the program has ended.
    Hold,
    /// Says something after a while, and never reads.
    HoldAndTalk,
    /// Never reads, and resets after a while.
    HoldAndReset,
    /// Reads a little and resets.
    Reset,
    /// Listens, and reads to the end what comes.
    Sink,
    /// `Drain`, and `Sink`.
    Both,
}

impl Client {
    fn named(name: &str) -> Self {
        match name {
            "late" => Self::Late,
            "late-and-any" => Self::LateAndAny,
            "ask" => Self::Ask,
            "answer" => Self::Answer,
            "lines" => Self::Lines,
            "bag" => Self::Bag,
            "hold" => Self::Hold,
            "hold-and-talk" => Self::HoldAndTalk,
            "hold-and-reset" => Self::HoldAndReset,
            "reset" => Self::Reset,
            "sink" => Self::Sink,
            "both" => Self::Both,
            other => panic!("no client {other}"),
        }
    }

    /// True if the number of bytes that arrive depends on the moment.
    pub(crate) fn by_chance(self) -> bool {
        matches!(
            self,
            Self::LateAndAny | Self::Hold | Self::HoldAndTalk | Self::HoldAndReset | Self::Reset
        )
    }

    pub(crate) fn listens(self) -> bool {
        matches!(self, Self::Sink | Self::Both)
    }

    pub(crate) fn connects(self) -> bool {
        self != Self::Sink
    }
}

impl Case {
    pub(crate) fn parse(line: &str) -> Self {
        let mut words = line.split_whitespace();
        let mut case = Self {
            group: words.next().unwrap().to_owned(),
            name: words.next().unwrap().to_owned(),
            client: Client::Drain,
            clients: 1,
            address: "127.0.0.1".to_owned(),
            send_buffer: None,
            gated: true,
            algorithm: None,
            under: None,
            controlled: None,
            passes: false,
        };
        for word in words {
            match word.split_once('=').unwrap() {
                ("client", name) => case.client = Client::named(name),
                ("clients", n) => case.clients = n.parse().unwrap(),
                ("address", address) => address.clone_into(&mut case.address),
                ("sndbuf", bytes) => case.send_buffer = Some(bytes.to_owned()),
                ("cc", name) => case.algorithm = Some(name.to_owned()),
                ("under", name) => case.under = Some(name.to_owned()),
                ("gate", "maybe") => case.gated = false,
                ("connections", "maybe") => case.controlled = Some(0),
                ("connections", "none") => (case.controlled, case.passes) = (Some(0), true),
                ("connections", n) => case.controlled = Some(n.parse().unwrap()),
                other => panic!("{other:?} in {line}"),
            }
        }
        case
    }

    /// As a client writes it: the unspecified address is reached by IPv4.
    pub(crate) fn host(&self) -> &str {
        if self.address == "::" {
            "127.0.0.1"
        } else {
            &self.address
        }
    }
}
