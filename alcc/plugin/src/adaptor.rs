// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A plug-in as a [`Controller`]. Events are passed as C structures. Results are clamped to the
//! ranges of the contract of [`Controller`].
use crate::abi::*;
use crate::receiver::PluginReceiver;
use crate::table::{Table, Value};
use alcc_cc::parts::{MAX_PACING_RATE, MIN_PACING_RATE};
use alcc_cc::{
    AckBatch, Allowance, Built, Controller, Cx, Header, Instance, LossBatch, Needs, Packet, Path,
    Receiver, RecoveryEnd, Rto, Sending, Sent, Spurious, Tag, WithReceiver,
};
use alcc_units::{Bytes, Options, Rate, Span, Spec, SpecError, Time};
use std::ffi::{CStr, CString, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

/// Minimum time between two timers, because a plug-in that always requests "now" must not stop the
/// host.
const MIN_TIMER: Span = Span::from_micros(100);
/// Valid intervals of reading acknowledgements.
const FEEDBACK: std::ops::RangeInclusive<Span> = Span::from_millis(1)..=Span::from_millis(100);
/// Time without quota, packets in flight and timer after which the flow counts as stuck, because
/// nothing would ever be sent again.
const MAX_STALL: Span = Span::from_secs(60);
/// Window after a copy could not be made.
const FALLBACK_SEGMENTS: u64 = 10;
/// The largest window of TCP (RFC 7323). With an unlimited window, a host without pacing would send
/// forever.
const MAX_WINDOW: Bytes = Bytes::new(1 << 30);
const ERROR_ROOM: usize = 256;

/// One connection's state in a plug-in.
pub(crate) struct PluginController {
    table: Arc<Table>,
    /// The state; `None`: the plug-in had no memory for a copy.
    state: Option<NonNull<c_void>>,
    mss: Bytes,
    in_flight: Bytes,
    now: Time,
    /// Time of the last `on_timer`.
    timer: Option<Time>,
    /// The quota left after the last packet was sent, until another event: the plug-in gets no
    /// more, and no ping.
    remaining_quota: Option<Bytes>,
    /// The packets of a batch, for the time of a call.
    packets: Vec<alcc_packet>,
}

// SAFETY: the interface allows the host to move a state between threads; two never use it at a
// time.
unsafe impl Send for PluginController {}

/// Calls a callback with the state, if both exist.
macro_rules! call {
    ($self:ident . $name:ident ( $($argument:expr),* )) => {
        call!($self, $self.table.calls, $name($($argument),*))
    };
    ($self:ident . reports() . $name:ident ( $($argument:expr),* )) => {
        call!($self, $self.reports(), $name($($argument),*))
    };
    ($self:ident, $calls:expr, $name:ident ( $($argument:expr),* )) => {
        match ($calls.$name, $self.state) {
            // SAFETY: the function is the plug-in's for this state. The arguments follow the
            // interface and outlive the call.
            (Some(f), Some(state)) => Some(unsafe { f(state.as_ptr(), $($argument),*) }),
            _ => None,
        }
    };
}

impl PluginController {
    /// An algorithm of the table with the options as typed and the defaults for the rest.
    pub(crate) fn build(table: &Arc<Table>, options: &Options<'_>) -> Built {
        let text = |name, default| options.text(name).unwrap_or(default).to_owned();
        let whole = Spec {
            name: table.name.to_owned(),
            options: (table.docs.iter())
                .map(|doc| (doc.name.to_owned(), text(doc.name, doc.default)))
                .collect(),
        };
        let whole = Options::new("algorithm", &whole, table.docs, &[])?;
        let values = (table.options.iter())
            .map(|option| option.read(&whole))
            .collect::<Result<Vec<Value>, _>>()?;
        let profile = (!table.profiles.is_empty()).then(|| options.profile());
        let state = create(table, profile, &values).map_err(|why| SpecError::Refused {
            kind: "algorithm",
            name: table.name.to_owned(),
            why,
        })?;
        let controller = Self {
            table: table.clone(),
            state: Some(state),
            mss: Bytes::new(1),
            in_flight: Bytes::ZERO,
            now: Time::ZERO,
            timer: None,
            remaining_quota: None,
            packets: Vec::new(),
        };
        Ok(match table.receiver {
            None => Instance::new(controller),
            Some(_) => Instance::with_receiver(controller),
        })
    }

    /// The callbacks of the receiver module; NULL if there is none.
    fn reports(&self) -> alcc_receiver {
        self.table.receiver.unwrap_or_default()
    }

    /// Handles every event except sending: the plug-in may give a new quota.
    fn event(&mut self, cx: &Cx<'_>) -> u64 {
        self.remaining_quota = None;
        self.now = cx.now;
        cx.now.as_nanos()
    }

    fn quota(&self) -> Bytes {
        let mut answer = alcc_allowance::from(&Allowance::UNLIMITED);
        call!(self.allowance(&raw mut answer));
        Bytes::new(answer.quota).min(self.remaining_quota.unwrap_or(Bytes::MAX))
    }

    fn fill(&mut self, packets: &[Packet]) {
        self.packets.clear();
        self.packets.extend(packets.iter().map(alcc_packet::from));
    }

    /// True if nothing would ever be sent again.
    fn stuck(&self, quota: Bytes) -> bool {
        quota < self.mss
            && self.remaining_quota.is_none()
            && self.in_flight == Bytes::ZERO
            && self
                .next_timer()
                .is_none_or(|at| at.since(self.now) > MAX_STALL)
    }
}

fn create(
    table: &Table,
    profile: Option<&str>,
    values: &[Value],
) -> Result<NonNull<c_void>, String> {
    let c_string = |text: &str| CString::new(text).unwrap_or_default();
    let (algorithm, profile) = (c_string(table.name), profile.map(c_string));
    // Options come from the command line or the environment, so they contain no zero bytes.
    let texts: Vec<CString> = (values.iter()).map(|value| c_string(&value.text)).collect();
    let list: Vec<alcc_value> = (values.iter().zip(&texts))
        .map(|(value, text)| alcc_value {
            text: text.as_ptr(),
            whole: value.whole,
            real: value.real,
        })
        .collect();
    let mut error = [0u8; ERROR_ROOM];
    let settings = alcc_create {
        size: size_of::<alcc_create>() as u32,
        value_count: list.len() as u32,
        values: list.as_ptr(),
        error: error.as_mut_ptr().cast(),
        error_size: ERROR_ROOM as u64,
        algorithm: algorithm.as_ptr(),
        profile: (profile.as_ref()).map_or(std::ptr::null(), |profile| profile.as_ptr()),
    };
    // SAFETY: a table has `create`; the settings and everything they point to outlive the call.
    let state = table
        .calls
        .create
        .and_then(|create| NonNull::new(unsafe { create(&raw const settings) }));
    state.ok_or_else(|| {
        error[ERROR_ROOM - 1] = 0;
        let said = CStr::from_bytes_until_nul(&error).unwrap_or_default();
        let said = said.to_string_lossy().replace(char::is_control, " ");
        if said.trim().is_empty() {
            "the plug-in refused its options without giving a reason".to_owned()
        } else {
            said.trim().to_owned()
        }
    })
}

impl Drop for PluginController {
    fn drop(&mut self) {
        call!(self.destroy());
    }
}

impl Controller for PluginController {
    fn needs(&self) -> Needs {
        let mut answer = alcc_needs::from(&Needs::default());
        call!(self.needs(&raw mut answer));
        let needs = Needs::from(&answer);
        Needs {
            feedback_period: needs
                .feedback_period
                .clamp(*FEEDBACK.start(), *FEEDBACK.end()),
            ..needs
        }
    }

    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        let now = self.event(cx);
        self.mss = path.mss;
        let path = alcc_path::from(path);
        call!(self.on_start(now, &raw const path));
    }

    fn on_sent(&mut self, cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        let before = self.quota();
        self.now = cx.now;
        self.in_flight = sent.in_flight_before + sent.len;
        let event = alcc_sent::from(sent);
        let tag = call!(self.on_sent(cx.now.as_nanos(), &raw const event));
        self.remaining_quota = Some(match before {
            Bytes::MAX => Bytes::MAX,
            before => before.saturating_sub(sent.len),
        });
        Tag(tag.unwrap_or_default())
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        let now = self.event(cx);
        self.in_flight = ack.in_flight;
        self.fill(ack.acked);
        let event = alcc_ack {
            packets: self.packets.as_ptr(),
            packet_count: self.packets.len() as u64,
            ..ack.into()
        };
        call!(self.on_ack(now, &raw const event));
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        let now = self.event(cx);
        self.in_flight = loss.in_flight;
        self.fill(loss.lost);
        let event = alcc_loss {
            packets: self.packets.as_ptr(),
            packet_count: self.packets.len() as u64,
            ..loss.into()
        };
        call!(self.on_loss(now, &raw const event));
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        let now = self.event(cx);
        let event = alcc_rto::from(rto);
        call!(self.on_rto(now, &raw const event));
    }

    fn on_spurious(&mut self, cx: &mut Cx<'_>, what: Spurious) {
        let now = self.event(cx);
        call!(self.on_spurious(now, (what == Spurious::Rto).into()));
    }

    fn on_recovery_end(&mut self, cx: &mut Cx<'_>, end: &RecoveryEnd) {
        let now = self.event(cx);
        let event = alcc_recovery_end::from(end);
        call!(self.on_recovery_end(now, &raw const event));
    }

    fn on_idle_restart(&mut self, cx: &mut Cx<'_>, idle: Span) {
        let now = self.event(cx);
        call!(self.on_idle_restart(now, idle.as_nanos()));
    }

    fn release_memory(&mut self) {
        self.packets = Vec::new();
        call!(self.release_memory());
    }

    fn on_mtu(&mut self, cx: &mut Cx<'_>, mss: Bytes) {
        let now = self.event(cx);
        self.mss = mss;
        call!(self.on_mtu(now, mss.get()));
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        let now = self.event(cx);
        self.timer = Some(cx.now);
        call!(self.on_timer(now));
    }

    fn allowance(&self) -> Allowance {
        let mut answer = alcc_allowance::from(&Allowance::UNLIMITED);
        if call!(self.allowance(&raw mut answer)).is_none() {
            return Allowance::window(self.mss * FALLBACK_SEGMENTS);
        }
        let allowed = Allowance::from(&answer);
        let quota = allowed
            .quota
            .min(self.remaining_quota.unwrap_or(Bytes::MAX));
        let in_range = |rate: Rate| rate.clamp(MIN_PACING_RATE, MAX_PACING_RATE);
        Allowance {
            window: allowed.window.min(MAX_WINDOW).max(self.mss),
            quota: if self.stuck(quota) { self.mss } else { quota },
            rate: allowed.rate.map(in_range),
            burst: allowed.burst.min(MAX_WINDOW),
            ping: allowed.ping && self.remaining_quota.is_none(),
        }
    }

    fn next_timer(&self) -> Option<Time> {
        let at = call!(self.next_timer()).filter(|at| *at != ALCC_NONE)?;
        let earliest = self.timer.map_or(Time::ZERO, |last| last + MIN_TIMER);
        Some(Time::from_nanos(at).max(earliest))
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        // Values that the plug-in does not set stay NaN, and are not passed on.
        let mut values = vec![f64::NAN; self.table.gauges.len()];
        if values.is_empty() || call!(self.gauges(values.as_mut_ptr())).is_none() {
            return;
        }
        for (name, value) in self.table.gauges.iter().zip(values) {
            if value.is_finite() {
                put(name, value);
            }
        }
    }
}

impl Clone for PluginController {
    fn clone(&self) -> Self {
        Self {
            state: call!(self.clone()).and_then(NonNull::new),
            table: self.table.clone(),
            packets: Vec::new(),
            ..*self
        }
    }
}

/// Used if the table has a receiver module.
impl WithReceiver for PluginController {
    fn receiver(&self) -> Box<dyn Receiver> {
        Box::new(PluginReceiver::new(self.reports(), self.state))
    }

    fn header_len(&self) -> u8 {
        self.reports().header_length.min(ALCC_HEADER_ROOM) as u8
    }

    fn header(&mut self, cx: &mut Cx<'_>, sending: &Sending) -> Header {
        let mut bytes = [0; ALCC_HEADER_ROOM as usize];
        let (now, more) = (cx.now.as_nanos(), sending.more.into());
        let to = bytes.as_mut_ptr();
        let length = call!(self.reports().on_header(now, sending.pn, more, to));
        let length = length.unwrap_or_default().min(self.header_len().into());
        Header::new(&bytes[..length as usize])
    }

    fn on_feedback(&mut self, cx: &mut Cx<'_>, report: &[u8]) {
        let now = self.event(cx);
        let (bytes, length) = (report.as_ptr(), report.len() as u64);
        call!(self.reports().on_feedback(now, bytes, length));
    }
}
