// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Output bytes, without copying the caller's data.
use std::io::IoSlice;
use std::ops::Range;

/// The output of [`crate::Session::output`] to be written, in order.
#[derive(Default, Debug)]
pub struct Output {
    pub(crate) bytes: Vec<u8>,
    parts: Vec<Part>,
    /// Length of the beginning of `bytes` that belongs to a part.
    assigned: usize,
}

#[derive(Debug)]
enum Part {
    Own(Range<usize>),
    Direct(Range<usize>),
}

impl Output {
    /// Empties it, but keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.parts.clear();
        self.assigned = 0;
    }

    /// True if there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.parts.is_empty()
    }

    /// Number of bytes to write.
    pub fn len(&self) -> usize {
        let assigned = self.parts.iter().map(|p| match p {
            Part::Own(r) | Part::Direct(r) => r.len(),
        });
        assigned.sum::<usize>() + self.bytes.len() - self.assigned
    }

    fn assign(&mut self) {
        if self.assigned < self.bytes.len() {
            self.parts.push(Part::Own(self.assigned..self.bytes.len()));
            self.assigned = self.bytes.len();
        }
    }

    /// Appends bytes of the caller.
    pub(crate) fn direct(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.assign();
            self.parts.push(Part::Direct(range));
        }
    }

    /// The pieces to write. `direct` is the argument of [`crate::Session::output`].
    pub fn slices<'a>(&'a mut self, direct: &'a [u8], slices: &mut Vec<IoSlice<'a>>) {
        self.assign();
        let Self { bytes, parts, .. } = self;
        slices.extend(parts.iter().map(|part| {
            IoSlice::new(match part {
                Part::Own(range) => &bytes[range.clone()],
                Part::Direct(range) => &direct[range.clone()],
            })
        }));
    }

    /// Appends to `rest` the bytes after the first `written`.
    pub fn copy_unwritten(&mut self, direct: &[u8], written: usize, rest: &mut Vec<u8>) {
        self.assign();
        let mut skip = written;
        for part in &self.parts {
            let bytes = match part {
                Part::Own(range) => &self.bytes[range.clone()],
                Part::Direct(range) => &direct[range.clone()],
            };
            rest.extend_from_slice(&bytes[skip.min(bytes.len())..]);
            skip = skip.saturating_sub(bytes.len());
        }
    }
}
