// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The members with their sums, so that the cost of an event does not depend on their number.
use alcc_cc::{Packet, Pn};
use alcc_units::Bytes;
use std::collections::BTreeMap;

/// The state of a member, or of all members in another process together.
#[derive(Clone, Default)]
pub(super) struct Part {
    /// Its packets in flight by its own numbers, as the algorithm knows them.
    pub(super) outstanding: BTreeMap<Pn, Packet>,
    pub(super) in_flight: Bytes,
    /// Number of members with more data than they may send.
    pub(super) backlogged: u64,
}

impl Part {
    /// The part of the window that it keeps: its data in flight.
    fn kept(&self) -> Bytes {
        match self.backlogged {
            0 => self.in_flight,
            _ => Bytes::ZERO,
        }
    }
}

#[derive(Clone, Default)]
pub(super) struct Members {
    parts: BTreeMap<u64, Part>,
    joined: u64,
    in_flight: Bytes,
    backlogged: u64,
    kept: Bytes,
}

impl Members {
    /// Admits a new member, and returns its number.
    pub(super) fn admit(&mut self) -> u64 {
        let number = self.joined;
        self.joined += 1;
        self.parts.insert(number, Part::default());
        number
    }

    /// Removes a member, and returns its bytes in flight, which belong to no member then.
    pub(super) fn dismiss(&mut self, number: u64) -> Bytes {
        let removed = self.change(number, std::mem::take).unwrap_or_default();
        self.parts.remove(&number);
        removed.in_flight
    }

    pub(super) fn len(&self) -> usize {
        self.parts.len()
    }

    pub(super) fn get(&self, number: u64) -> Option<&Part> {
        self.parts.get(&number)
    }

    /// Changes a member; `None` if there is no such member.
    pub(super) fn change<R>(
        &mut self,
        number: u64,
        change: impl FnOnce(&mut Part) -> R,
    ) -> Option<R> {
        let part = self.parts.get_mut(&number)?;
        let in_flight = self.in_flight.saturating_sub(part.in_flight);
        let kept = self.kept.saturating_sub(part.kept());
        let backlogged = self.backlogged - part.backlogged;
        let result = change(part);
        self.in_flight = in_flight + part.in_flight;
        self.kept = kept + part.kept();
        self.backlogged = backlogged + part.backlogged;
        Some(result)
    }

    /// Bytes in flight of all members.
    pub(super) fn in_flight(&self) -> Bytes {
        self.in_flight
    }

    /// Number of members with more data than they may send.
    pub(super) fn backlogged(&self) -> u64 {
        self.backlogged
    }

    /// Number of members that share the window, `number` included.
    pub(super) fn sharing(&self, number: u64) -> u64 {
        1 + self.backlogged - self.get(number).map_or(0, |own| own.backlogged)
    }

    /// Bytes in flight of the members without more data, except `number`.
    pub(super) fn kept_by_others(&self, number: u64) -> Bytes {
        let own = self.get(number).map_or(Bytes::ZERO, Part::kept);
        self.kept.saturating_sub(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_parts() {
        let mut members = Members::default();
        let numbers: Vec<u64> = (0..4).map(|_| members.admit()).collect();
        for (step, number) in (1..=200).zip(numbers.iter().cycle()) {
            members.change(*number, |part| {
                part.in_flight = Bytes::new(step * 7919 % 5000);
                part.backlogged = step / 3 % 3;
            });
            let parts = || numbers.iter().filter_map(|n| Some((*n, members.get(*n)?)));
            let in_flight: Bytes = parts().map(|(_, part)| part.in_flight).sum();
            assert_eq!(members.in_flight(), in_flight);
            let others = || parts().filter(|(other, _)| other != number);
            let backlogged: u64 = others().map(|(_, part)| part.backlogged).sum();
            assert_eq!(members.sharing(*number), 1 + backlogged);
            let kept: Bytes = others()
                .filter(|(_, part)| part.backlogged == 0)
                .map(|(_, part)| part.in_flight)
                .sum();
            assert_eq!(members.kept_by_others(*number), kept);
            if step == 150 {
                let had = members.get(numbers[1]).unwrap().in_flight;
                assert_eq!(members.dismiss(numbers[1]), had);
                assert_eq!(members.dismiss(numbers[1]), Bytes::ZERO);
            }
        }
        assert_eq!(members.len(), 3);
    }
}
