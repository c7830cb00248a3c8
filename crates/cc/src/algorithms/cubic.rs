// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CUBIC: after a loss the window returns to where it was along a cubic of time, lingers there, then probes beyond. RFC 9438.
//!
//! The growth depends on time, not on the RTT; where Reno would be faster, it follows Reno. Two forms: `linux` (integers, as
//! the kernel since 4.1, with HyStart) and `rfc9438` (the text).
//!
//! | constant | `rfc9438` | `linux` | source |
//! |---|---|---|---|
//! | C | 0.4 packets/s^3 | 410/1024 | RFC 9438, section 5; tcp_cubic |
//! | decrease | 0.7 | 717/1024 | section 4.6 |
//! | fast convergence | 0.85 | (1024+717)/2048 | section 4.7 |
//! | Reno-friendly increase | 0.529 per round, 1 above the old window | 8/15 per round | section 4.3 |
//! | growth at most | 1.5 windows per round | 1/2 packet per packet | section 4.2; tcp_cubic |
//! | initial window | 10 packets | 10 packets | RFC 6928 |
//! | slow start ends | on loss | HyStart: delay +1/8 (4 to 16 ms), or a train of half the RTT | tcp_cubic |
//!
//! **Differs from the originals**: `linux` takes cube roots exactly rounded, not by table (0.2 %); its HyStart has no allowance
//! for segmentation offload. Recovery is shaped by the host.
//!
//! **Known weakness**: fills every buffer, on cellular links for seconds; HyStart's delay test takes radio jitter above 4 ms
//! for queueing and ends slow start early (`hystart=off`).
mod linux;
mod rfc9438;

use crate::parts::LossBased;
use crate::{Algorithm, Controller, OptionDoc, Options, SpecError};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "cubic",
    summary: "CUBIC: returns to the window of the last loss along a cubic of time",
    profiles: &["linux", "rfc9438"],
    options: &[OptionDoc {
        name: "hystart",
        default: "on",
        help: "on or off: leave slow start when delay grows (profile linux only)",
    }],
    build,
};

fn build(options: &Options<'_>) -> Result<Box<dyn Controller>, SpecError> {
    let hystart = options.choice("hystart", &["on", "off"])? == "on";
    Ok(match options.profile() {
        "rfc9438" => Box::new(LossBased::new(rfc9438::Cubic::new())),
        _ => Box::new(LossBased::new(linux::Cubic::new(hystart))),
    })
}
