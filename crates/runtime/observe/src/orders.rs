// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Orders of `alcc ctl` to running processes: control off and on, another algorithm.
use crate::map::{self, ORDERS, ORDERS_LEN, get_text, put_text, set};
use crate::pattern::Pattern;
use crate::segment::Segment;
use alcc_cc::Spec;
use alcc_sys::Peer;
use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

/// What is to change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Plain TCP.
    Off,
    /// Under control again.
    On,
    /// This algorithm.
    Algorithm(Spec),
}

/// A change, for all connections or those of a port or an address range. Of several that match, the last counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    /// Which; `None`: all.
    pub pattern: Option<Pattern>,
    /// What.
    pub change: Change,
}

/// All orders so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Orders {
    /// Number of the last change; 0: none yet.
    pub generation: u64,
    /// In the order in which they were given.
    pub list: Vec<Order>,
}

/// The text in shared memory must fit.
const MAX_TEXT: usize = (ORDERS_LEN - 2) * 8;

impl Order {
    /// Is this connection meant?
    pub fn covers(&self, peer: &Peer) -> bool {
        self.pattern.is_none_or(|p| p.matches(peer))
    }
}

impl Orders {
    /// Is this connection to be controlled?
    pub fn on(&self, peer: &Peer) -> bool {
        let last = self
            .list
            .iter()
            .rev()
            .find(|o| matches!(o.change, Change::Off | Change::On) && o.covers(peer));
        last.is_none_or(|o| o.change == Change::On)
    }

    /// The algorithm ordered for this connection.
    pub fn algorithm(&self, peer: &Peer) -> Option<&Spec> {
        self.list.iter().rev().find_map(|o| match &o.change {
            Change::Algorithm(spec) if o.covers(peer) => Some(spec),
            _ => None,
        })
    }

    /// One order more. What it makes void is dropped, so that the list does not grow with time.
    fn add(&mut self, order: Order) {
        let kind = |o: &Order| matches!(o.change, Change::Algorithm(_));
        let same = kind(&order);
        self.list
            .retain(|o| kind(o) != same || (order.pattern.is_some() && o.pattern != order.pattern));
        self.list.push(order);
    }

    fn text(&self) -> String {
        self.list.iter().map(|o| format!("{o}\n")).collect()
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            Some(pattern) => write!(f, "{pattern} ")?,
            None => f.write_str("* ")?,
        }
        match &self.change {
            Change::Off => f.write_str("off"),
            Change::On => f.write_str("on"),
            Change::Algorithm(spec) => write!(f, "cc={spec}"),
        }
    }
}

impl FromStr for Order {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let (pattern, change) = line
            .split_once(' ')
            .ok_or_else(|| format!("'{line}' is no order"))?;
        let pattern = if pattern == "*" {
            None
        } else {
            Some(pattern.parse()?)
        };
        let change = match (change, change.strip_prefix("cc=")) {
            ("off", _) => Change::Off,
            ("on", _) => Change::On,
            (_, Some(spec)) => Change::Algorithm(
                spec.parse()
                    .map_err(|e: alcc_cc::SpecError| e.to_string())?,
            ),
            _ => return Err(format!("'{change}' is no order")),
        };
        Ok(Self { pattern, change })
    }
}

impl Segment {
    /// The orders given so far; `None` if they cannot be read. A line that makes no sense is left out.
    pub fn orders(&self) -> Option<Orders> {
        let words = self.map().words(ORDERS, ORDERS_LEN);
        let mut copy = vec![0; ORDERS_LEN - 1];
        if !map::snapshot_into(words, &mut copy) {
            return None;
        }
        let text = get_text(&copy[1..]);
        Some(Orders {
            generation: copy[0],
            list: text.lines().filter_map(|line| line.parse().ok()).collect(),
        })
    }

    /// Number of the last order: what a process looks at before every write.
    pub fn generation(&self) -> u64 {
        self.map().word(ORDERS + 1).load(Ordering::Relaxed)
    }

    /// Gives an order to all processes, one caller at a time.
    ///
    /// # Errors
    /// That the lock cannot be had, or that there are too many orders for single ports.
    pub fn order(&self, order: Order) -> io::Result<Orders> {
        self.locked(|| self.submit(order))
    }

    fn submit(&self, order: Order) -> io::Result<Orders> {
        let mut orders = self.orders().unwrap_or_default();
        orders.add(order);
        orders.generation += 1;
        let text = orders.text();
        if text.len() > MAX_TEXT {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                format!(
                    "there are {} orders for single ports and ranges already: give one for all",
                    orders.list.len() - 1
                ),
            ));
        }
        map::publish(self.map().words(ORDERS, ORDERS_LEN), |w| {
            put_text(&w[1..], &text);
            set(&w[0], orders.generation);
        });
        Ok(orders)
    }
}

/// A process's copy of the orders, read again when they have changed.
#[derive(Default)]
pub struct OrderCache {
    generation: AtomicU64,
    orders: RwLock<Arc<Orders>>,
}

impl OrderCache {
    /// The orders, if there are newer ones than number `seen`.
    pub fn newer(&self, segment: &Segment, seen: u64) -> Option<Arc<Orders>> {
        if segment.generation() == seen {
            return None;
        }
        self.orders(segment)
            .filter(|orders| orders.generation != seen)
    }

    /// The orders now. While another thread is reading new ones: those before, or nothing new; the next write or reading asks again.
    /// Nobody waits for that in a write, and no signal handler comes here.
    pub fn orders(&self, segment: &Segment) -> Option<Arc<Orders>> {
        let now = segment.generation();
        if self.generation.load(Ordering::Acquire) != now
            && let Ok(mut kept) = self.orders.try_write()
            && let Some(fresh) = segment.orders()
        {
            self.generation.store(fresh.generation, Ordering::Release);
            *kept = Arc::new(fresh);
        }
        self.orders.try_read().ok().map(|kept| Arc::clone(&kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::tests::Scratch;

    fn order(text: &str) -> Order {
        text.parse().unwrap()
    }

    fn to(port: u16) -> Peer {
        Peer {
            remote: "192.0.2.1:999".parse().unwrap(),
            local_port: port,
            outbound: false,
        }
    }

    #[test]
    fn the_last_order_that_matches_counts() {
        let mut orders = Orders::default();
        assert!(orders.on(&to(443)) && orders.algorithm(&to(443)).is_none());
        for text in [
            "* off",
            "443 on",
            "* cc=copa",
            "80 cc=fixed:window=3",
            "192.0.2.0/24 on",
        ] {
            orders.add(order(text));
        }
        assert!(orders.on(&to(443)) && orders.on(&to(80)));
        let name = |port| orders.algorithm(&to(port)).unwrap().to_string();
        assert_eq!(
            (name(443), name(80)),
            ("copa".to_owned(), "fixed:window=3".to_owned())
        );
        orders.add(order("* off"));
        assert!(!orders.on(&to(443)));
        assert_eq!(orders.list.len(), 3, "{orders:?}");
    }

    #[test]
    fn orders_reach_another_view_and_too_many_are_refused() {
        let scratch = Scratch::new();
        let (ctl, process) = (scratch.create(), scratch.open());
        let cache = OrderCache::default();
        assert_eq!(cache.orders(&process).unwrap().generation, 0);
        let given = ctl.order(order("10.0.0.0/8 cc=copa:delta=0.2")).unwrap();
        assert_eq!((given.generation, process.generation()), (1, 1));
        assert_eq!(*cache.orders(&process).unwrap(), given);
        let mut refused = None;
        for port in 1..2000 {
            if let Err(why) = ctl.order(order(&format!("{port} off"))) {
                refused = Some(why.to_string());
                break;
            }
        }
        assert!(refused.unwrap().contains("give one for all"));
        assert!(cache.orders(&process).unwrap().list.len() > 500);
        ctl.order(order("* off")).unwrap();
        assert_eq!(cache.orders(&process).unwrap().list.len(), 2);
    }

    #[test]
    fn nonsense_is_no_order() {
        for bad in ["", "off", "* of", "x off", "* cc=", "443 cc=:"] {
            assert!(bad.parse::<Order>().is_err(), "{bad}");
        }
    }
}
