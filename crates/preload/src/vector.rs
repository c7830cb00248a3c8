// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parts of the caller's buffer vectors.
use libc::iovec;

/// The caller's vector, if it is one that the kernel would take.
///
/// # Safety
/// `iov` is null or points to `count` vectors.
pub(crate) unsafe fn vector_of<'a>(iov: *const iovec, count: usize) -> Option<&'a [iovec]> {
    let valid = !iov.is_null() && count <= libc::UIO_MAXIOV as usize;
    // SAFETY: by contract.
    valid.then(|| unsafe { std::slice::from_raw_parts(iov, count) })
}

pub(crate) fn total(vector: &[iovec]) -> usize {
    vector
        .iter()
        .fold(0usize, |sum, v| sum.saturating_add(v.iov_len))
}

const PIECES: usize = 64;

/// A stretch of a vector: at most so many pieces, on the stack. What does not fit is written by the program's next call,
/// as after any partial write.
pub(crate) struct Part<'a> {
    whole: Option<&'a [iovec]>,
    pieces: [iovec; PIECES],
    used: usize,
}

impl<'a> Part<'a> {
    pub(crate) fn of(vector: &'a [iovec], mut skip: usize, mut limit: usize) -> Self {
        let none = iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        let mut part = Self {
            whole: None,
            pieces: [none; PIECES],
            used: 0,
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
            let Some(to) = part.pieces.get_mut(part.used) else {
                break;
            };
            *to = iovec {
                iov_base: piece.iov_base.wrapping_byte_add(skipped),
                iov_len: len,
            };
            part.used += 1;
            limit -= len;
        }
        part
    }

    pub(crate) fn as_ptr(&self) -> *const iovec {
        self.whole.map_or(self.pieces.as_ptr(), <[iovec]>::as_ptr)
    }

    pub(crate) fn len(&self) -> usize {
        self.whole.map_or(self.used, <[iovec]>::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
