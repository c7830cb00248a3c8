// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::{BLOCK, BLOCK_PREFIX, Fields, HEADER, Header, Kind, Progress, TRAILER, made_up};
use alcc_pipe::Sha256;
use std::sync::OnceLock;

/// Error of a stream that is not a valid transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Wrong {
    /// The first bytes are not those of a transfer.
    #[error(
        "the peer does not use the format of 'alcc send': do both ends have the same --transport?"
    )]
    Stranger,
    /// The version is unknown.
    #[error("the peer uses version {0} of the format, this program {VERSION} and {RESUMING}: use the same alcc at both ends", VERSION = crate::VERSION, RESUMING = crate::RESUMING)]
    Version(u8),
    /// The fields of the header contradict each other.
    #[error("the header is malformed")]
    Header,
    /// A block is longer than the maximum.
    #[error("a block of {0} bytes: at most {BLOCK} are allowed")]
    Block(u32),
    /// There is more content than announced in the header, or than the receiver accepts.
    #[error("more than the {0} bytes that were announced or are allowed")]
    TooLong(u64),
    /// The number of bytes is not the one in header or trailer.
    #[error("{got} bytes arrived, but {announced} were announced")]
    Count {
        /// Bytes received.
        got: u64,
        /// Bytes announced.
        announced: u64,
    },
    /// Made-up content differs from the expected one.
    #[error("the content is damaged within the 64 KiB before byte {0}")]
    Damaged(u64),
    /// The flow resumes at another position than the end of the received part.
    #[error("it continues at byte {asked}, but {have} bytes are here")]
    Position {
        /// Position at which the flow resumes.
        asked: u64,
        /// Length of the received part.
        have: u64,
    },
    /// The hash differs.
    #[error("the content is damaged: its SHA-256 is not the sender's")]
    Hash,
    /// There are bytes after the trailer.
    #[error("data after the end of the transfer")]
    AfterEnd,
    /// The stream ended within the transfer.
    #[error("the sender stopped after {0} bytes, before the end of the transfer")]
    CutShort(u64),
}

/// Receiver of the content of a [`Reader`].
pub trait Sink {
    /// Its own errors, besides those of an invalid stream ([`Wrong`]).
    type Error: From<Wrong>;

    /// Takes the header. Returns the limit of the content, bytes.
    ///
    /// # Errors
    /// The reason for refusing this transfer.
    fn begin(&mut self, header: &Header) -> Result<u64, Self::Error>;

    /// The part of the file that earlier connections have brought; called after `begin`.
    fn earlier(&mut self) -> Option<Progress> {
        None
    }

    /// Takes content of a file.
    ///
    /// # Errors
    /// The reason why it cannot be kept.
    fn content(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Notes that a block is complete.
    fn block(&mut self, bytes: u32, stamp: u64);
}

/// Parser of one flow. It needs a few hundred bytes of memory, however hostile the peer.
pub struct Reader {
    state: State,
    /// The received part of a header, a block's header or a trailer.
    part: [u8; HEADER],
    filled: usize,
    header: Option<Header>,
    hash: Option<Sha256>,
    sum: [u8; 32],
    bytes: u64,
    blocks: u64,
    limit: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Header,
    Before,
    Content { length: u32, done: u32, stamp: u64 },
    Trailer,
    End,
}

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

impl Reader {
    /// A reader before the first byte.
    pub fn new() -> Self {
        Self {
            state: State::Header,
            part: [0; HEADER],
            filled: 0,
            header: None,
            hash: None,
            sum: [0; 32],
            bytes: 0,
            blocks: 0,
            limit: 0,
        }
    }

    /// The header, once it has arrived, whether it is accepted or not.
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// Bytes of content received so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True if everything has arrived unchanged.
    pub fn is_complete(&self) -> bool {
        self.state == State::End
    }

    /// The received part of a file, for the connection that brings the rest.
    pub fn progress(&self) -> Option<Progress> {
        let hash = self.hash.clone()?;
        Some(Progress::new(self.bytes, hash))
    }

    /// The hash of a file's content, once it is complete.
    pub fn hash(&self) -> [u8; 32] {
        self.sum
    }

    /// Notes the end of the stream.
    ///
    /// # Errors
    /// [`Wrong::CutShort`] if the transfer is not complete.
    pub fn end(&self) -> Result<(), Wrong> {
        if self.is_complete() {
            Ok(())
        } else {
            Err(Wrong::CutShort(self.bytes))
        }
    }

    /// Takes the next bytes of the stream.
    ///
    /// # Errors
    /// An error of the stream ([`Wrong`]), or of the sink. The reader must not be fed after that.
    pub fn feed<S: Sink>(&mut self, mut bytes: &[u8], sink: &mut S) -> Result<(), S::Error> {
        while !bytes.is_empty() {
            match self.state {
                State::End => return Err(Wrong::AfterEnd.into()),
                State::Header => {
                    if self.fill(&mut bytes, HEADER) {
                        let header = Header::decode(&self.part)?;
                        self.header = Some(header.clone());
                        let most = sink.begin(&header)?;
                        if header.size.is_some_and(|size| size > most) {
                            return Err(Wrong::TooLong(most).into());
                        }
                        self.limit = header.size.unwrap_or(most);
                        if header.kind == Kind::Ask {
                            self.state = State::End;
                            continue;
                        }
                        if let Some(asked) = header.offset.filter(|at| *at > 0) {
                            let earlier = sink.earlier();
                            let have = earlier.as_ref().map_or(0, Progress::bytes);
                            let earlier = earlier.filter(|_| have == asked);
                            let earlier = earlier.ok_or(Wrong::Position { asked, have })?;
                            self.bytes = have;
                            self.hash = Some(earlier.into_hash());
                        } else {
                            self.hash = (header.kind == Kind::File).then(Sha256::new);
                        }
                        self.state = State::Before;
                    } else {
                        // A stream of another protocol is refused at once, not after the length of
                        // a header.
                        Header::begins(&self.part[..self.filled])?;
                    }
                }
                State::Before => {
                    if self.fill(&mut bytes, BLOCK_PREFIX) {
                        self.state = self.before()?;
                    }
                }
                State::Content {
                    length,
                    done,
                    stamp,
                } => {
                    let remaining = (length - done) as usize;
                    let (now, later) = bytes.split_at(remaining.min(bytes.len()));
                    bytes = later;
                    self.content(now, done as usize, sink)?;
                    let done = done + now.len() as u32;
                    self.state = if done == length {
                        self.blocks += 1;
                        sink.block(length, stamp);
                        State::Before
                    } else {
                        State::Content {
                            length,
                            done,
                            stamp,
                        }
                    };
                }
                State::Trailer => {
                    if self.fill(&mut bytes, TRAILER - BLOCK_PREFIX) {
                        self.trailer()?;
                        self.state = State::End;
                    }
                }
            }
        }
        Ok(())
    }

    /// Collects `wanted` bytes; true when they are complete.
    fn fill(&mut self, bytes: &mut &[u8], wanted: usize) -> bool {
        let (now, later) = bytes.split_at((wanted - self.filled).min(bytes.len()));
        self.part[self.filled..self.filled + now.len()].copy_from_slice(now);
        self.filled += now.len();
        *bytes = later;
        if self.filled == wanted {
            self.filled = 0;
            return true;
        }
        false
    }

    fn before(&self) -> Result<State, Wrong> {
        let mut fields = Fields(&self.part);
        let (length, stamp) = (fields.u32(), fields.u64());
        if length == 0 {
            return Ok(State::Trailer);
        }
        if length as usize > BLOCK {
            return Err(Wrong::Block(length));
        }
        if u64::from(length) > self.limit - self.bytes {
            return Err(Wrong::TooLong(self.limit));
        }
        Ok(State::Content {
            length,
            done: 0,
            stamp,
        })
    }

    fn content<S: Sink>(&mut self, now: &[u8], done: usize, sink: &mut S) -> Result<(), S::Error> {
        static TEXT: OnceLock<Vec<u8>> = OnceLock::new();
        self.bytes += now.len() as u64;
        if let Some(hash) = &mut self.hash {
            hash.update(now);
            return sink.content(now);
        }
        let at = made_up::place(self.blocks) + BLOCK_PREFIX + done;
        let same = TEXT.get_or_init(made_up::text).get(at..at + now.len());
        if same == Some(now) {
            Ok(())
        } else {
            Err(Wrong::Damaged(self.bytes).into())
        }
    }

    fn trailer(&mut self) -> Result<(), Wrong> {
        let mut fields = Fields(&self.part);
        let (announced, sum) = (fields.u64(), fields.bytes::<32>());
        let size = self.header.as_ref().and_then(|h| h.size);
        for announced in [announced, size.unwrap_or(announced)] {
            if announced != self.bytes {
                return Err(Wrong::Count {
                    got: self.bytes,
                    announced,
                });
            }
        }
        if let Some(hash) = self.hash.take() {
            self.sum = hash.finalize();
        }
        if self.sum != sum {
            return Err(Wrong::Hash);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Writer;
    use alcc_units::Rng;

    #[derive(Default)]
    struct Kept {
        content: Vec<u8>,
        blocks: Vec<(u32, u64)>,
        most: u64,
    }

    impl Sink for Kept {
        type Error = Wrong;

        fn begin(&mut self, _: &Header) -> Result<u64, Wrong> {
            Ok(self.most)
        }

        fn content(&mut self, bytes: &[u8]) -> Result<(), Wrong> {
            self.content.extend(bytes);
            Ok(())
        }

        fn block(&mut self, bytes: u32, stamp: u64) {
            self.blocks.push((bytes, stamp));
        }
    }

    fn header(kind: Kind, size: Option<u64>) -> Header {
        Header {
            kind,
            flow: 1,
            flows: 3,
            size,
            session: [7; 16],
            clock: [9; 16],
            offset: None,
        }
    }

    fn stream(header: &Header, lengths: &[usize]) -> Vec<u8> {
        let mut writer = Writer::new(header);
        let mut all = header.encode().to_vec();
        for (stamp, length) in (100..).zip(lengths) {
            if header.kind == Kind::File {
                for (i, b) in writer.space()[..*length].iter_mut().enumerate() {
                    *b = (i % 251) as u8;
                }
                all.extend(writer.file(*length, stamp));
            } else {
                all.extend(writer.made_up(*length, stamp));
            }
        }
        all.extend(writer.trailer(0).0);
        all
    }

    fn read(stream: &[u8], piece: usize, most: u64) -> Result<Kept, Wrong> {
        let mut kept = Kept {
            most,
            ..Kept::default()
        };
        let mut reader = Reader::new();
        for piece in stream.chunks(piece) {
            reader.feed(piece, &mut kept)?;
        }
        reader.end()?;
        Ok(kept)
    }

    const LENGTHS: [usize; 5] = [1, 1400, 65_536, 3, 40_000];

    #[test]
    fn what_is_written_is_read_however_it_is_cut() {
        for kind in [Kind::MadeUp, Kind::File] {
            let total = LENGTHS.iter().sum::<usize>() as u64;
            for size in [None, Some(total)] {
                let stream = stream(&header(kind, size), &LENGTHS);
                for piece in [1, 7, 64, 1_000, 200_000] {
                    let kept = read(&stream, piece, total).unwrap();
                    let lengths: Vec<_> = kept.blocks.iter().map(|b| b.0 as usize).collect();
                    assert_eq!(lengths, LENGTHS);
                    assert_eq!(kept.blocks[4].1, 104);
                    let is_file = kind == Kind::File;
                    assert_eq!(kept.content.len() as u64, if is_file { total } else { 0 });
                }
            }
        }
    }

    #[test]
    fn the_hash_is_sha256() {
        // FIPS 180-2, B.1: "abc".
        let mut writer = Writer::new(&header(Kind::File, None));
        writer.space()[..3].copy_from_slice(b"abc");
        writer.file(3, 0);
        let sum = writer.trailer(0).1;
        assert_eq!(sum[..4], [0xba, 0x78, 0x16, 0xbf]);
        assert_eq!(sum[28..], [0xf2, 0x00, 0x15, 0xad]);
    }

    #[test]
    fn any_changed_bit_of_content_lost_or_doubled_block_is_noticed() {
        let mut rng = Rng::new(3);
        for kind in [Kind::MadeUp, Kind::File] {
            let whole = stream(&header(kind, None), &LENGTHS);
            for _ in 0..300 {
                let mut bent = whole.clone();
                let at = 64 + rng.below(bent.len() as u64 - 64) as usize;
                bent[at] ^= 1 << rng.below(8);
                let is_stamp = read(&bent, 5_000, u64::MAX).is_ok();
                // Stamps are not covered by the hash: they decide nothing but the delays.
                let mut starts = LENGTHS.iter().scan(64, |start, len| {
                    let this = *start;
                    *start += BLOCK_PREFIX + len;
                    Some(this)
                });
                let trailer = whole.len() - TRAILER;
                let stamp = |start: usize| (start + 4..start + 12).contains(&at);
                assert_eq!(is_stamp, starts.any(stamp) || stamp(trailer), "{at}");
            }
            let block = 64..64 + BLOCK_PREFIX + 1;
            let second = block.end..block.end + BLOCK_PREFIX + 1400;
            let mut lost = whole.clone();
            lost.drain(second.clone());
            assert!(read(&lost, 999, u64::MAX).is_err());
            let mut doubled = whole.clone();
            doubled.splice(second.end..second.end, whole[second].iter().copied());
            assert!(read(&doubled, 999, u64::MAX).is_err());
        }
    }

    #[test]
    fn what_cannot_be_is_named() {
        let good = stream(&header(Kind::File, Some(1401)), &[1, 1400]);
        let bent = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            read(&bytes, 50, 10_000).err()
        };
        assert_eq!(read(&good, 50, 10_000).err(), None);
        for stranger in [&b"G"[..], b"GET / HTTP/1.1\r\n\r\n", &[0; 500]] {
            assert_eq!(read(stranger, 99, 9).err(), Some(Wrong::Stranger));
        }
        assert_eq!(bent(8, 3), Some(Wrong::Version(3)));
        assert_eq!(bent(9, 2), Some(Wrong::Header));
        assert_eq!(bent(13, 1), Some(Wrong::Header));
        assert_eq!(bent(60, 1), Some(Wrong::Header));
        assert_eq!(bent(64, 0xff), Some(Wrong::Block(0xff00_0001)));
        assert_eq!(read(&good, 50, 1400).err(), Some(Wrong::TooLong(1400)));
        let unknown = stream(&header(Kind::File, None), &[1, 1400]);
        assert_eq!(read(&unknown, 50, 1400).err(), Some(Wrong::TooLong(1400)));
        // A block of one byte, and what is there of the second.
        let there = 200 - 64 - (BLOCK_PREFIX as u64 + 1) - BLOCK_PREFIX as u64 + 1;
        assert_eq!(
            read(&good[..200], 50, 10_000).err(),
            Some(Wrong::CutShort(there))
        );
        let mut more = good.clone();
        more.push(0);
        assert_eq!(read(&more, 5_000, 10_000).err(), Some(Wrong::AfterEnd));
        let less = stream(&header(Kind::File, Some(1402)), &[1, 1400]);
        let short = Wrong::Count {
            got: 1401,
            announced: 1402,
        };
        assert_eq!(read(&less, 50, 10_000).err(), Some(short));
    }
}
