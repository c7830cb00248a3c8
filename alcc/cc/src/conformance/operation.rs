// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_units::Span;

/// One thing that can happen to a controller. Every string of bytes is a list of operations, so
/// that a fuzzer can drive them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    /// Time passes, from nothing to weeks.
    Advance(Span),
    /// Up to `n` records of `segments` segments are sent, as far as allowed.
    Send { n: u8, segments: u64 },
    /// After `delay` a fraction (in 1/255, at least one packet) of the outstanding packets is
    /// acknowledged; every `skip`-th was lost.
    Ack {
        share: u8,
        skip: u8,
        delay: Span,
        ambiguous: bool,
    },
    /// This many of the oldest packets are lost.
    Lose(u8),
    /// The retransmission timer expires.
    Rto,
    /// A report of the receiver.
    Feedback(Vec<u8>),
    /// The packets reported lost last arrive after all.
    Spurious,
    /// Path MTU discovery sets another MSS.
    Mtu(u16),
    /// Nothing is sent for this long.
    Idle(Span),
    /// All timers that are due run.
    Timer,
    /// Time passes until the controller's next timer, if it has one, which then runs.
    NextTimer,
    /// The limits of the sender, as bits: window, quota, pacer, app, peer; and whether packets that
    /// arrive from now on are marked.
    Limited(u8),
}

/// 2^(b/5) microseconds: one microsecond to 66 years... cut at 30 days; zero stays zero.
fn span(b: u8) -> Span {
    if b == 0 {
        return Span::ZERO;
    }
    let base = 1u64 << (b / 5).min(41);
    let fraction = base / 5 * u64::from(b % 5);
    Span::from_micros(base + fraction).min(Span::from_secs(30 * 86_400))
}

/// Mostly delays of real networks; one in eight from the whole range.
fn delay(b: u8) -> Span {
    if b % 8 == 7 {
        span(b)
    } else {
        Span::from_micros(u64::from(b) * 500)
    }
}

impl Operation {
    /// The next operation; `None` when the bytes end.
    pub(super) fn decode(bytes: &mut impl Iterator<Item = u8>) -> Option<Self> {
        let what = bytes.next()?;
        let mut next = || bytes.next().unwrap_or(0);
        Some(match what % 32 {
            0..=5 => Self::Advance(delay(next())),
            6..=13 => {
                let (n, s) = (next(), next());
                let segments = if s % 16 == 15 {
                    1 << (s / 16)
                } else {
                    1 + u64::from(s % 4)
                };
                Self::Send { n, segments }
            }
            14..=21 => {
                let (share, skip, d) = (next(), next(), next());
                Self::Ack {
                    share,
                    skip,
                    delay: delay(d),
                    ambiguous: what >= 224,
                }
            }
            22 => Self::Lose(next()),
            23 => Self::Rto,
            24 => {
                let n = next() % 80;
                Self::Feedback((0..n).map(|_| next()).collect())
            }
            25 => Self::Spurious,
            26 => Self::Mtu(u16::from_le_bytes([next(), next()])),
            27..=28 => Self::Idle(span(next())),
            29 => Self::Limited(next()),
            30 => Self::Timer,
            _ => Self::NextTimer,
        })
    }
}
