// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parts of the caller's buffer vectors.
use libc::{c_void, iovec};

/// The caller's vector, if the kernel would accept it.
///
/// # Safety
/// `iov` is null or points to `count` vectors.
pub(crate) unsafe fn vector_of<'a>(iov: *const iovec, count: usize) -> Option<&'a [iovec]> {
    let valid = !iov.is_null() && count <= libc::UIO_MAXIOV as usize;
    // SAFETY: by contract.
    let vector = valid.then(|| unsafe { std::slice::from_raw_parts(iov, count) })?;
    // The kernel refuses a piece larger than the address space, but would accept its first part.
    vector
        .iter()
        .all(|v| exists(v.iov_base, v.iov_len))
        .then_some(vector)
}

/// False for a memory range beyond the address space of a program.
pub(crate) fn exists(base: *const c_void, len: usize) -> bool {
    const END: usize = 1 << (usize::BITS - 1);
    (base as usize)
        .checked_add(len)
        .is_some_and(|end| end < END)
}

pub(crate) fn total(vector: &[iovec]) -> usize {
    vector
        .iter()
        .fold(0usize, |sum, v| sum.saturating_add(v.iov_len))
}

const MAX_PIECES: usize = 64;

/// A part of a vector. A few pieces are on the stack, which may be a signal handler's small one;
/// more are on the heap. Without memory, the program's next call writes the rest, as after any
/// partial write.
pub(crate) struct Part<'a> {
    whole: Option<&'a [iovec]>,
    pieces: [iovec; MAX_PIECES],
    used: usize,
    more: Vec<iovec>,
}

impl<'a> Part<'a> {
    pub(crate) fn of(vector: &'a [iovec], mut skip: usize, mut limit: usize) -> Self {
        let none = iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        let mut part = Self {
            whole: None,
            pieces: [none; MAX_PIECES],
            used: 0,
            more: Vec::new(),
        };
        if skip == 0 && limit >= total(vector) {
            part.whole = Some(vector);
            return part;
        }
        for piece in vector {
            let skipped = skip.min(piece.iov_len);
            skip -= skipped;
            let len = (piece.iov_len - skipped).min(limit);
            if len == 0 {
                continue;
            }
            let piece = iovec {
                iov_base: piece.iov_base.wrapping_byte_add(skipped),
                iov_len: len,
            };
            if !part.push(piece, vector.len()) {
                break;
            }
            limit -= len;
        }
        part
    }

    fn push(&mut self, piece: iovec, max: usize) -> bool {
        if let Some(to) = self.pieces.get_mut(self.used) {
            *to = piece;
        } else {
            if self.more.is_empty() {
                if self.more.try_reserve_exact(max).is_err() {
                    return false;
                }
                self.more.extend_from_slice(&self.pieces);
            }
            self.more.push(piece);
        }
        self.used += 1;
        true
    }

    pub(crate) fn as_ptr(&self) -> *const iovec {
        let few = self.used <= MAX_PIECES;
        let part = if few { &self.pieces } else { &*self.more };
        self.whole.unwrap_or(part).as_ptr()
    }

    pub(crate) fn len(&self) -> usize {
        self.whole.map_or(self.used, <[iovec]>::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_pieces_and_impossible_ones() {
        let text = [7u8; 300];
        let vector: Vec<_> = (0..300)
            .map(|i| iovec {
                iov_base: text[i..].as_ptr().cast_mut().cast(),
                iov_len: 1,
            })
            .collect();
        for limit in [1, 63, 64, 65, 250, 299] {
            let part = Part::of(&vector, 1, limit);
            // SAFETY: the count is that of the pieces.
            let got = unsafe { std::slice::from_raw_parts(part.as_ptr(), part.len()) };
            assert_eq!(got.len(), limit.min(299));
            assert!(
                got.iter()
                    .zip(&vector[1..])
                    .all(|(a, b)| a.iov_base == b.iov_base)
            );
        }
        let start = text.as_ptr().cast::<c_void>();
        assert!(exists(start, 300) && exists(std::ptr::null(), 0));
        assert!(!exists(start, usize::MAX / 2) && !exists(start, usize::MAX));
    }

    #[test]
    fn a_part_of_a_vector_is_that_part() {
        let text = *b"abcdefghij";
        let piece = |from: usize, to: usize| iovec {
            iov_base: text[from..to].as_ptr().cast_mut().cast(),
            iov_len: to - from,
        };
        let vector = [piece(0, 3), piece(3, 3), piece(3, 8), piece(8, 10)];
        for skip in 0..=10 {
            for limit in 0..=12 - skip {
                let part = Part::of(&vector, skip, limit);
                let mut got = Vec::new();
                for i in 0..part.len() {
                    // SAFETY: a piece of `text`.
                    got.extend_from_slice(unsafe {
                        let v = &*part.as_ptr().add(i);
                        std::slice::from_raw_parts(v.iov_base.cast::<u8>(), v.iov_len)
                    });
                }
                assert_eq!(
                    got,
                    &text[skip..(skip + limit).min(10)],
                    "skip {skip} limit {limit}"
                );
            }
        }
    }
}
