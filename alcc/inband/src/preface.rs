// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The preface: the first message of each end.
use crate::Error;

/// The current version, the only one.
pub const VERSION: u8 = 1;
/// The first bytes of every connection, in both directions. No text protocol begins with them, and
/// any translation of line ends damages them.
pub const MAGIC: [u8; 8] = *b"ALCC\r\n\x1a\n";
/// Length up to the algorithm's name.
pub(crate) const FIXED_LEN: usize = 28;
/// Longest name of an algorithm, bytes.
pub const MAX_NAME: usize = 200;
/// Maximum length of a preface: version 1 skips any fields that it does not know.
pub const MAX_PREFACE: usize = 1024;
const HEADER_LEN: usize = 12;

/// The first message of an end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Preface {
    /// Position up to which the peer may send until an acknowledgement extends it.
    pub credit: u64,
    /// Maximum delay requested for acknowledgements, µs.
    pub ack_delay: u32,
    /// Bytes of counted frames in a full segment.
    pub segment: u16,
    /// The algorithm of which the peer must run the receiver module; empty: none.
    pub algorithm: String,
}

impl Preface {
    /// Appends the encoded preface.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let name = &self.algorithm.as_bytes()[..self.algorithm.len().min(MAX_NAME)];
        out.extend_from_slice(&MAGIC);
        out.push(VERSION);
        out.push(0);
        out.extend_from_slice(&((FIXED_LEN - HEADER_LEN + name.len()) as u16).to_be_bytes());
        out.extend_from_slice(&self.credit.to_be_bytes());
        out.extend_from_slice(&self.ack_delay.to_be_bytes());
        out.extend_from_slice(&self.segment.to_be_bytes());
        out.push(0);
        out.push(name.len() as u8);
        out.extend_from_slice(name);
    }

    /// Decodes `bytes`, of which more may arrive: `None` as long as they can still become a
    /// preface. Otherwise the preface and its length.
    ///
    /// # Errors
    /// [`Error::Foreign`] for the first byte that is not of the magic, [`Error::Version`] for the
    /// first nine bytes with another version, and [`Error::Protocol`] for invalid fields.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, Error> {
        let magic = bytes.len().min(MAGIC.len());
        if bytes[..magic] != MAGIC[..magic] {
            return Err(Error::Foreign(bytes[..bytes.len().min(16)].to_vec()));
        }
        match bytes.get(MAGIC.len()) {
            None => return Ok(None),
            Some(&VERSION) => {}
            Some(&other) => return Err(Error::Version(other)),
        }
        let Some(head) = bytes.first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        let len = HEADER_LEN + usize::from(u16::from_be_bytes([head[10], head[11]]));
        if !(FIXED_LEN..=MAX_PREFACE).contains(&len) {
            return Err(Error::Protocol("a preface of impossible length"));
        }
        if bytes.len() < len {
            return Ok(None);
        }
        let name = usize::from(bytes[27]);
        if name > MAX_NAME || FIXED_LEN + name > len {
            return Err(Error::Protocol("an algorithm's name of impossible length"));
        }
        let name = std::str::from_utf8(&bytes[FIXED_LEN..FIXED_LEN + name])
            .map_err(|_| Error::Protocol("an algorithm's name that is not UTF-8"))?;
        let mut take = ByteReader(&bytes[HEADER_LEN..]);
        let preface = Self {
            credit: take.be(8),
            ack_delay: take.be(4) as u32,
            segment: take.be(2) as u16,
            algorithm: name.to_owned(),
        };
        if preface.segment == 0 {
            return Err(Error::Protocol("a segment of no bytes"));
        }
        Ok(Some((preface, len)))
    }
}

/// Big-endian numbers, one after the other; zero beyond the end.
pub(crate) struct ByteReader<'a>(pub(crate) &'a [u8]);

impl ByteReader<'_> {
    pub(crate) fn be(&mut self, bytes: usize) -> u64 {
        let (now, rest) = self.0.split_at(bytes.min(self.0.len()));
        self.0 = rest;
        now.iter().fold(0, |n, b| n << 8 | u64::from(*b))
    }
}
