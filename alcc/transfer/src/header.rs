// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::reader::Wrong;
use crate::{Fields, HEADER, RESUMING, UNKNOWN, VERSION};

const MAGIC: &[u8; 8] = b"alccsend";

/// The content of the blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Content that both ends generate, compared byte for byte.
    MadeUp,
    /// A file, or other content that is not known beforehand, with its hash.
    File,
    /// No content: queries how much of the session's file has arrived.
    Ask,
}

/// The header of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The kind of content.
    pub kind: Kind,
    /// Number of this flow, from 0.
    pub flow: u16,
    /// Number of flows that belong together, at least 1.
    pub flows: u16,
    /// Bytes of content to come, if known.
    pub size: Option<u64>,
    /// Random bytes that identify the flows that belong together.
    pub session: [u8; 16],
    /// A digest of the session and of the identity of the sender's clock: a receiver with the same
    /// digest has the same clock. Zero: unknown.
    pub clock: [u8; 16],
    /// Version 2, for a flow that resumes: the position in the file at which its content begins,
    /// bytes. `None`: version 1.
    pub offset: Option<u64>,
}

impl Header {
    /// Encodes the header.
    pub fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0..8].copy_from_slice(MAGIC);
        bytes[8] = self.offset.map_or(VERSION, |_| RESUMING);
        bytes[9] = match self.kind {
            Kind::MadeUp => 0,
            Kind::File => 1,
            Kind::Ask => 2,
        };
        bytes[10..12].copy_from_slice(&self.flow.to_be_bytes());
        bytes[12..14].copy_from_slice(&self.flows.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.size.unwrap_or(UNKNOWN).to_be_bytes());
        bytes[24..40].copy_from_slice(&self.session);
        bytes[40..56].copy_from_slice(&self.clock);
        bytes[56..64].copy_from_slice(&self.offset.unwrap_or(0).to_be_bytes());
        bytes
    }

    /// Checks that these bytes can be the beginning of a header.
    ///
    /// # Errors
    /// [`Wrong::Stranger`] if they cannot.
    pub(crate) fn begins(bytes: &[u8]) -> Result<(), Wrong> {
        let same = bytes.iter().zip(MAGIC).all(|(a, b)| a == b);
        if same { Ok(()) } else { Err(Wrong::Stranger) }
    }

    /// Decodes a peer's header.
    ///
    /// # Errors
    /// [`Wrong::Stranger`] if it is not a header of this format, [`Wrong::Header`] if its fields
    /// are invalid.
    pub fn decode(bytes: &[u8; HEADER]) -> Result<Self, Wrong> {
        let mut fields = Fields(bytes);
        if fields.bytes() != *MAGIC {
            return Err(Wrong::Stranger);
        }
        let version = fields.byte();
        if version != VERSION && version != RESUMING {
            return Err(Wrong::Version(version));
        }
        let kind = match (version, fields.byte()) {
            (VERSION, 0) => Kind::MadeUp,
            (_, 1) => Kind::File,
            (RESUMING, 2) => Kind::Ask,
            _ => return Err(Wrong::Header),
        };
        let (flow, flows, zero) = (fields.u16(), fields.u16(), fields.u16());
        let (size, session, clock) = (fields.maybe(), fields.bytes(), fields.bytes());
        let offset = fields.u64();
        let makes_sense = match kind {
            // A session that resumes is a single file of a known size.
            _ if version == VERSION => offset == 0,
            Kind::Ask => flows == 1 && offset == 0 && size.is_some(),
            _ => flows == 1 && size.is_some_and(|size| offset <= size),
        };
        if flow >= flows || zero != 0 || !makes_sense {
            return Err(Wrong::Header);
        }
        Ok(Self {
            kind,
            flow,
            flows,
            size,
            session,
            clock,
            offset: (version == RESUMING).then_some(offset),
        })
    }
}
