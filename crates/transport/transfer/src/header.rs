// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::reader::Wrong;
use crate::{Fields, HEADER, UNKNOWN, VERSION};

const MAGIC: &[u8; 8] = b"alccsend";

/// What the blocks contain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Content that both ends make up, compared byte for byte.
    MadeUp,
    /// A file, or whatever else is not known beforehand, with its hash.
    File,
}

/// The beginning of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// What is sent.
    pub kind: Kind,
    /// Number of this flow, from 0, and of all flows that belong together: at least 1.
    pub flow: u16,
    /// The latter.
    pub flows: u16,
    /// Bytes of content to come, if that is known.
    pub size: Option<u64>,
    /// The same random bytes in all flows that belong together.
    pub session: [u8; 16],
    /// A digest of the session and of what identifies the sender's clock: who finds the same has
    /// the same clock. Zero: not known.
    pub clock: [u8; 16],
}

impl Header {
    /// As it is sent.
    pub fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0..8].copy_from_slice(MAGIC);
        bytes[8] = VERSION;
        bytes[9] = match self.kind {
            Kind::MadeUp => 0,
            Kind::File => 1,
        };
        bytes[10..12].copy_from_slice(&self.flow.to_be_bytes());
        bytes[12..14].copy_from_slice(&self.flows.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.size.unwrap_or(UNKNOWN).to_be_bytes());
        bytes[24..40].copy_from_slice(&self.session);
        bytes[40..56].copy_from_slice(&self.clock);
        bytes
    }

    /// Whether a header may begin so.
    ///
    /// # Errors
    /// [`Wrong::Stranger`] if not.
    pub(crate) fn begins(bytes: &[u8]) -> Result<(), Wrong> {
        let same = bytes.iter().zip(MAGIC).all(|(a, b)| a == b);
        if same { Ok(()) } else { Err(Wrong::Stranger) }
    }

    /// From a peer.
    ///
    /// # Errors
    /// [`Wrong::Stranger`] if it is not a header of this format, [`Wrong::Header`] if what it says
    /// cannot be.
    pub fn decode(bytes: &[u8; HEADER]) -> Result<Self, Wrong> {
        let mut fields = Fields(bytes);
        if fields.bytes() != *MAGIC {
            return Err(Wrong::Stranger);
        }
        let version = fields.byte();
        if version != VERSION {
            return Err(Wrong::Version(version));
        }
        let kind = match fields.byte() {
            0 => Kind::MadeUp,
            1 => Kind::File,
            _ => return Err(Wrong::Header),
        };
        let (flow, flows, zero) = (fields.u16(), fields.u16(), fields.u16());
        let header = Self {
            kind,
            flow,
            flows,
            size: fields.maybe(),
            session: fields.bytes(),
            clock: fields.bytes(),
        };
        if flow >= flows || zero != 0 || fields.u64() != 0 {
            return Err(Wrong::Header);
        }
        Ok(header)
    }
}
