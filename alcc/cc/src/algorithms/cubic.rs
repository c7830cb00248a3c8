// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CUBIC: after a loss the window returns to its old size along a cubic function of time, flat around that size, then
//! probes beyond it. RFC 9438.
//!
//! The growth depends on time, not on the RTT, except where Reno would be faster. There are four forms. `linux` uses
//! integers, as the kernel since 4.1, with HyStart. `linux-3.16` is the kernel of the Verus paper. `linux-2.6.24` is
//! CUBIC 2.1, of the HSDPA paper. `rfc9438` is the text, a form of the laboratory (`lab/zoo/src/forms`). The kernels'
//! forms are one rule with different numbers.
//!
//! | constant | `rfc9438` | `linux` | `linux-3.16` | `linux-2.6.24` | source |
//! |---|---|---|---|---|---|
//! | C | 0.4 packets/s^3 | 410/1024 | same | same | RFC 9438, section 5; tcp_cubic |
//! | decrease | 0.7 | 717/1024 | same | 819/1024 | section 4.6 |
//! | fast convergence | 0.85 | (1024+717)/2048 | same | (1024+819)/2048 | section 4.7 |
//! | Reno-friendly increase per round | 0.529, 1 above the old window | 8/15 | same | 8/23 | section 4.3 |
//! | growth at most | 1.5 windows per round | 1/2 packet per packet | 1 per acknowledgement | 16 packets per 100 ms of RTT, once above the old window | section 4.2; tcp_cubic |
//! | before the first loss, one packet per | the curve | 20 at least | same | 50 | tcp_cubic |
//! | what counts | segments | segments | acknowledgements, times their ratio of segments (32/16 at first, 32 at most) | same, no limit | tcp_cubic, delayed_ack |
//! | initial window | 10 packets | 10 | 10 | 3 | RFC 6928; RFC 3390 |
//! | slow start ends | on loss | HyStart: delay +1/8 (4 to 16 ms), or a train of half the RTT | same, +1/16 | on loss | tcp_cubic |
//! | a mistaken loss is undone to | before | before | before | the window of the loss before, converged | tcp_cubic |
//!
//! **Differs from the originals**: the integer forms take cube roots exactly rounded, not by table
//! (0.2 %). Their HyStart has no allowance for segmentation offload. Recovery is shaped by the
//! host.
//!
//! **Known weakness**: fills every buffer, on cellular links for seconds. HyStart's delay test takes radio jitter above
//! 4 ms for queueing and so ends slow start early (`hystart=off`).
mod linux;

use crate::parts::{Kernel, LossBased};
use crate::{Algorithm, Build, Built, Instance, OptionDoc, Options};
use linux::Generation;
use std::borrow::Cow;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "cubic",
    summary: "CUBIC: returns to the window of the last loss along a cubic of time",
    profiles: Cow::Borrowed(&["linux", "linux-3.16", "linux-2.6.24"]),
    options: &[OptionDoc {
        name: "hystart",
        default: "on",
        help: "on or off: leave slow start when delay grows (linux and linux-3.16; the others have none)",
    }],
    build: Build::Function(build),
};

/// The curve of current Linux, for algorithms with their own exit from slow start.
pub use linux::Cubic as Curve;

/// CUBIC of current Linux, without HyStart.
pub fn curve() -> Curve {
    linux::Cubic::new(&Generation::LINUX, false)
}

fn build(options: &Options<'_>) -> Built {
    let hystart = options.choice("hystart", &["on", "off"])? == "on";
    let (kernel, generation) = match options.profile() {
        "linux-3.16" => (Kernel::LINUX_3_16, &Generation::LINUX_3_16),
        "linux-2.6.24" => (Kernel::LINUX_2_6_24, &Generation::LINUX_2_6_24),
        _ => (Kernel::LINUX, &Generation::LINUX),
    };
    let cubic = linux::Cubic::new(generation, hystart);
    Ok(Instance::new(LossBased::of(kernel, cubic)))
}
