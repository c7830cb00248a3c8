// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `alcc send` and `alcc recv` carry a scheme by, as the names of schemes say it. One entry each.

/// A transport between two programs of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transport {
    /// What `--transport` calls it.
    pub name: &'static str,
    /// How a scheme's name ends that goes by it: `verus-udp`, `alcc-verus-inband`.
    pub suffix: &'static str,
    /// The kernel's TCP is below.
    pub above_tcp: bool,
    /// How acknowledgements are learned, unless the sender says otherwise.
    pub feedback: &'static str,
    /// How the limit is kept, unless the sender says otherwise.
    pub enforcement: &'static str,
    /// What the simulator has for it: the parts of a flow after the algorithm; or why it has nothing.
    pub simulated: Result<&'static str, &'static str>,
}

impl Transport {
    /// All there are.
    pub const ALL: &'static [Self] = &[
        Self {
            name: "udp",
            suffix: "-udp",
            above_tcp: false,
            feedback: "udp",
            enforcement: "native",
            simulated: Ok("/host=udp"),
        },
        Self {
            name: "quic",
            suffix: "-quic",
            above_tcp: false,
            feedback: "quic",
            enforcement: "native",
            simulated: Err("it has no QUIC: A-udp is the native form there"),
        },
        Self {
            name: "in-band",
            suffix: "-inband",
            above_tcp: true,
            feedback: "in-band",
            enforcement: "queue",
            simulated: Err(
                "it has no acknowledgements inside the stream: alcc-A is its form above TCP",
            ),
        },
        Self {
            name: "tcp",
            suffix: "-tcp",
            above_tcp: true,
            feedback: "timestamps",
            enforcement: "queue+pacing",
            simulated: Err("it has the kernel's counters only: alcc-A is its form above TCP"),
        },
    ];

    /// The transport that the name of an algorithm ends with, and the name without it.
    pub(super) fn of(name: &str) -> Option<(&str, &'static Self)> {
        Self::ALL
            .iter()
            .find_map(|t| Some((name.strip_suffix(t.suffix)?, t)))
    }
}
