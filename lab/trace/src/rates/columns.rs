// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recognition of columns by their names: the time, the rate, and their units.
use super::form_error;
use crate::TraceError;
use crate::parse::excerpt;

/// A unit of a rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Unit {
    pub(super) mbit: f64,
    /// True for a volume: the amount in the row's interval.
    pub(super) volume: bool,
}

/// The meaning of a row's time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Clock {
    /// Time since some start, in units of this many ms.
    At(f64),
    /// Duration of the row, in units of this many ms.
    Lasting(f64),
    /// Without a column: a constant interval in ms.
    Every(f64),
}

pub(super) fn no_unit(name: &str) -> TraceError {
    form_error(format!(
        "column '{}' has no unit of a rate in its name: give it (--unit kbit)",
        excerpt(name.as_bytes())
    ))
}

pub(super) fn listed(names: &[String]) -> String {
    let mut shown: Vec<String> = names
        .iter()
        .take(8)
        .map(|n| excerpt(n.as_bytes()))
        .collect();
    if names.len() > shown.len() {
        shown.push("...".to_owned());
    }
    shown.join(", ")
}

/// The index of the column with this name or number.
pub(super) fn place(
    name: &str,
    header: Option<&Vec<String>>,
    columns: usize,
) -> Result<usize, TraceError> {
    let named = header.and_then(|header| header.iter().position(|n| n == name));
    let numbered = || {
        name.parse()
            .ok()
            .filter(|n| (1..=columns).contains(n))
            .map(|n: usize| n - 1)
    };
    named.or_else(numbered).ok_or_else(|| {
        form_error(match header {
            Some(header) => format!(
                "no column '{}': there are {}",
                excerpt(name.as_bytes()),
                listed(header)
            ),
            None => format!(
                "no column '{}': there are {columns} without names: use their numbers",
                excerpt(name.as_bytes())
            ),
        })
    })
}

pub(super) fn find_clock(header: Option<&Vec<String>>) -> Result<(Clock, usize), TraceError> {
    let names = header.map_or(&[][..], Vec::as_slice);
    let found = names
        .iter()
        .enumerate()
        .find_map(|(n, name)| Some((clock_of(name)?, n)));
    found.ok_or_else(|| {
        form_error(format!(
            "no column has the name of a time ({}): choose time and rate (--column TIME,RATE), or give the interval of the rows (--every 1s)",
            listed(names)
        ))
    })
}

/// The words of a column's name, in lower case.
pub(super) fn words(name: &str) -> Vec<String> {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric());
    words
        .filter(|w| !w.is_empty())
        .map(str::to_ascii_lowercase)
        .collect()
}

/// True if a column has this name, comparing letters and digits only.
pub(super) fn is_of(header: &[String], name: &str) -> bool {
    header.iter().any(|n| words(n).concat() == name)
}

/// G-NetTrack writes kbit/s without naming the unit.
pub(super) fn kbit(header: Option<&Vec<String>>, rate: usize) -> Option<Unit> {
    let header = header?;
    let known = ["DL_bitrate", "UL_bitrate"].contains(&header[rate].as_str());
    (known && is_of(header, "rsrp")).then_some(Unit {
        mbit: 1e-3,
        volume: false,
    })
}

pub(super) fn is_rate(name: &str) -> bool {
    const WORDS: [&str; 6] = [
        "rate",
        "bitrate",
        "throughput",
        "bandwidth",
        "bw",
        "goodput",
    ];
    unit_of_name(name).is_some() || words(name).iter().any(|w| WORDS.contains(&w.as_str()))
}

/// The kind of time that a column's name implies.
pub(super) fn clock_of(name: &str) -> Option<Clock> {
    const TIMES: [&str; 5] = ["time", "timestamp", "elapsed", "t", "start"];
    let words = words(name);
    let unit = |word: &String| match word.as_str() {
        "s" | "sec" | "secs" | "second" | "seconds" => Some(1e3),
        "ms" | "msec" | "millisecond" | "milliseconds" => Some(1.0),
        "us" | "usec" | "microseconds" => Some(1e-3),
        "ns" | "nanoseconds" => Some(1e-6),
        _ => None,
    };
    let scale = words.last().and_then(unit);
    if words.iter().any(|word| word == "duration") {
        return Some(Clock::Lasting(scale.unwrap_or(1e3)));
    }
    let named = words.iter().any(|word| TIMES.contains(&word.as_str()));
    match scale {
        Some(scale) if named || words.len() == 1 => Some(Clock::At(scale)),
        None if named => Some(Clock::At(1e3)),
        _ => None,
    }
}

/// The unit at the end of a column's name: `bandwidth_kbps`, `rate (Mbit/s)`.
pub(super) fn unit_of_name(name: &str) -> Option<Unit> {
    let cut = |c: char| matches!(c, '_' | ' ' | '(' | '[' | ':' | '-');
    let name = name.trim_end_matches([')', ']', ' ']);
    let starts = name
        .char_indices()
        .filter(|(_, c)| cut(*c))
        .map(|(n, c)| n + c.len_utf8());
    [0].into_iter()
        .chain(starts)
        .find_map(|n| unit_of(&name[n..]))
}

/// `kbit`, `Mbit/s`, `Mbits/sec`, `kbps`, `MB/s`, `bytes/s`; `bytes` is a volume. As usual a
/// capital B means byte, but not in a name of capitals only (`RATE_KBPS`).
pub(super) fn unit_of(text: &str) -> Option<Unit> {
    let text = text.trim();
    let capitals = !text.contains(|c: char| c.is_ascii_lowercase());
    let lower = text.to_ascii_lowercase();
    const PER: [&str; 8] = [
        "/second",
        "/sec",
        "/s",
        "_per_second",
        "_per_sec",
        " per second",
        "_per_s",
        "ps",
    ];
    let per = PER.iter().find_map(|end| lower.strip_suffix(end));
    let base = &text[..per.unwrap_or(&lower).len()];
    let (factor, base) = match base.chars().next()? {
        'k' | 'K' => (1e3, &base[1..]),
        'm' | 'M' => (1e6, &base[1..]),
        'g' | 'G' => (1e9, &base[1..]),
        _ => (1.0, base),
    };
    let (bits, short) = match base {
        "B" if !capitals || per.is_none() => (8.0, true),
        "b" | "B" => (1.0, true),
        _ => match base.to_ascii_lowercase().as_str() {
            "bit" | "bits" => (1.0, false),
            "byte" | "bytes" => (8.0, false),
            _ => return None,
        },
    };
    if short && per.is_none() && factor == 1.0 {
        return None;
    }
    // `kbit` without a time is tc's notation for a rate.
    let volume = per.is_none() && (bits == 8.0 || factor == 1.0);
    Some(Unit {
        mbit: factor * bits / 1e6,
        volume,
    })
}
