// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of cut connections that a receiver keeps until another connection brings the rest. Their number, bytes and
//! time are bounded, whoever sends.
use crate::keeping::PartialFile;
use crate::{Answer, Progress, Verdict};
use alcc_sys::{Changed, lock, now};
use alcc_units::{Span, Time};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Maximum time for an earlier connection of a session to end: more than a read takes.
const HAND_OVER: Span = Span::from_secs(3);
/// Number of answers about complete files that are remembered, some hundred bytes each.
const MAX_DONE: usize = 1024;

/// Random bytes that identify a session.
pub(crate) type Id = [u8; 16];

/// The partial files, and the answers that a sender may not have received.
pub struct Sessions {
    keep: Duration,
    most: usize,
    most_bytes: u64,
    entries: Mutex<BTreeMap<Id, Entry>>,
    changed: Changed,
}

/// The received part of a file.
pub(crate) struct Part {
    /// The file; `None`: nothing is kept.
    pub(crate) file: Option<PartialFile>,
    pub(crate) progress: Progress,
    /// Size of the whole file, bytes.
    pub(crate) size: u64,
    /// Time that the connections so far took, ns.
    pub(crate) took: u64,
}

enum Entry {
    /// A connection is receiving it; the flag is set when another one claims it.
    Going(Arc<AtomicBool>),
    Waits(Part, Time),
    Done(Answer, Time),
}

/// The reason why a session cannot be claimed.
#[derive(Debug)]
pub(crate) enum Refused {
    /// An earlier connection does not end.
    Busy,
    /// The file has another size than before.
    Size,
    /// The flow resumes at another position than the end of the received part, which is this, bytes.
    Position(u64),
}

impl Sessions {
    /// Keeps the files of cut connections for `keep`, at most `most` files, and at most `most_bytes` in total.
    pub fn new(keep: Duration, most: usize, most_bytes: u64) -> Self {
        Self {
            keep,
            most,
            most_bytes,
            entries: Mutex::default(),
            changed: Changed::default(),
        }
    }

    /// The time for which a partial file is kept.
    pub fn keep(&self) -> Duration {
        self.keep
    }

    /// Removes files that have waited too long, or `all`. Returns the number of incomplete files removed.
    pub fn sweep(&self, all: bool) -> u32 {
        let mut entries = lock(&self.entries);
        let mut files = 0;
        let now = now();
        let is_recent = |since: Time| Duration::from(now.since(since)) < self.keep;
        entries.retain(|_, entry| match entry {
            Entry::Going(_) => true,
            Entry::Waits(_, since) => {
                let stays = is_recent(*since) && !all;
                files += u32::from(!stays);
                stays
            }
            Entry::Done(_, since) => is_recent(*since),
        });
        files
    }

    /// True if the session is known here.
    pub(crate) fn knows(&self, id: &Id) -> bool {
        let entries = lock(&self.entries);
        entries.contains_key(id)
    }

    /// The received length of a session's file. A connection that still brings it is ended, because the sender that
    /// queries has given it up.
    pub(crate) fn query(&self, id: &Id) -> Result<Answer, Refused> {
        let mut entries = self.free(id)?;
        Ok(match entries.get_mut(id) {
            Some(Entry::Done(answer, since)) => {
                *since = now();
                answer.clone()
            }
            Some(Entry::Waits(part, since)) => {
                *since = now();
                Self::partial(part.progress.bytes())
            }
            _ => Self::partial(0),
        })
    }

    /// The answer that `bytes` have arrived, and that the rest may follow.
    pub(crate) fn partial(bytes: u64) -> Answer {
        Answer {
            resumes: true,
            verdict: Verdict::Part,
            bytes,
            took: 0,
            end: None,
            delay_median: None,
            delay_p95: None,
            hash: [0; 32],
        }
    }

    /// Claims the file for this connection from `offset` on. Returns the received part, if that is not empty, and a
    /// flag that is set once another connection claims it.
    pub(crate) fn claim(
        &self,
        id: &Id,
        offset: u64,
        size: u64,
    ) -> Result<(Option<Part>, Arc<AtomicBool>), Refused> {
        let mut entries = self.free(id)?;
        let have = match entries.get(id) {
            Some(Entry::Waits(part, _)) if part.size != size => return Err(Refused::Size),
            Some(Entry::Waits(part, _)) => part.progress.bytes(),
            _ => 0,
        };
        if offset > 0 && offset != have {
            return Err(Refused::Position(have));
        }
        let taken = Arc::new(AtomicBool::new(false));
        let before = entries.insert(*id, Entry::Going(Arc::clone(&taken)));
        let part = match before {
            Some(Entry::Waits(part, _)) if offset > 0 => Some(part),
            _ => None,
        };
        Ok((part, taken))
    }

    /// The entries, once no connection holds this one.
    fn free(&self, id: &Id) -> Result<std::sync::MutexGuard<'_, BTreeMap<Id, Entry>>, Refused> {
        let mut entries = lock(&self.entries);
        let until = now() + HAND_OVER;
        while let Some(Entry::Going(taken)) = entries.get(id) {
            taken.store(true, Ordering::Relaxed);
            let remaining = until.since(now());
            if remaining.is_zero() {
                return Err(Refused::Busy);
            }
            entries = self.changed.wait(&self.entries, entries, remaining);
        }
        Ok(entries)
    }

    /// Returns the received part of a cut connection. True if it is kept for the rest.
    pub(crate) fn put_back(&self, id: &Id, part: Part) -> bool {
        let mut entries = lock(&self.entries);
        entries.insert(*id, Entry::Waits(part, now()));
        self.shrink(&mut entries);
        let stays = entries.contains_key(id);
        self.changed.notify_all();
        stays
    }

    /// Removes the smallest files until the limits are met, so that a sender can displace a large file only by larger
    /// ones.
    fn shrink(&self, entries: &mut BTreeMap<Id, Entry>) {
        loop {
            let waiting = entries.iter().filter_map(|(id, entry)| match entry {
                Entry::Waits(part, _) => Some((part.progress.bytes(), *id)),
                _ => None,
            });
            let (mut number, mut total, mut smallest) = (0, 0_u64, None);
            for one in waiting {
                number += 1;
                total = total.saturating_add(one.0);
                smallest = Some(smallest.map_or(one, |least: (u64, Id)| least.min(one)));
            }
            match smallest {
                Some((bytes, id))
                    if bytes == 0 || number > self.most || total > self.most_bytes =>
                {
                    entries.remove(&id);
                }
                _ => return,
            }
        }
    }

    /// Ends a session: the file is complete, or will never be.
    pub(crate) fn finish(&self, id: &Id, answer: &Answer) {
        let mut entries = lock(&self.entries);
        entries.remove(id);
        if answer.verdict == Verdict::Good {
            let done = entries.iter().filter_map(|(id, entry)| match entry {
                Entry::Done(_, since) => Some((*since, *id)),
                _ => None,
            });
            let done: Vec<_> = done.collect();
            if done.len() >= MAX_DONE
                && let Some((_, oldest)) = done.into_iter().min()
            {
                entries.remove(&oldest);
            }
            entries.insert(*id, Entry::Done(answer.clone(), now()));
        }
        self.changed.notify_all();
    }
}
