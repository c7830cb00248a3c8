// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The build ID of a program or library: it identifies the build.
use std::io;

/// Program header type of a segment with notes (ELF).
const PT_NOTE: u32 = 4;
/// Type of the `GNU` note that holds the build ID.
const NT_GNU_BUILD_ID: u32 = 3;

/// Reads the build ID of a program or library, as `readelf -n` prints it. The linker computes it from the content.
/// `None` if there is no build ID, or if the file is not a 64-bit ELF file of this byte order. `read` fills a buffer
/// from an offset of the file, as `read_exact_at` does.
pub fn build_id(read: impl Fn(&mut [u8], u64) -> io::Result<()>) -> Option<String> {
    search(read).ok().flatten()
}

fn search(read: impl Fn(&mut [u8], u64) -> io::Result<()>) -> io::Result<Option<String>> {
    let mut head = [0; 64];
    read(&mut head, 0)?;
    if !head.starts_with(b"\x7fELF\x02") {
        return Ok(None);
    }
    let (at, size, count) = (long(&head, 0x20), half(&head, 0x36), half(&head, 0x38));
    for number in 0..count {
        let mut header = [0; 56];
        read(&mut header, at + number * size)?;
        if word(&header, 0) != PT_NOTE {
            continue;
        }
        let (from, len) = (long(&header, 0x08), long(&header, 0x20));
        let mut notes = vec![0; len.min(1 << 16) as usize];
        read(&mut notes, from)?;
        if let Some(id) = id_in(&notes) {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

/// The build ID among these notes.
fn id_in(mut notes: &[u8]) -> Option<String> {
    while notes.len() >= 12 {
        let [name, len] = [0, 4].map(|at| word(notes, at) as usize);
        let from = 12 + name.next_multiple_of(4);
        let found = notes.get(from..from.checked_add(len)?)?;
        if word(notes, 8) == NT_GNU_BUILD_ID && notes[12..].starts_with(b"GNU\0") {
            return Some(found.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        notes = notes.get(from + len.next_multiple_of(4)..)?;
    }
    None
}

fn bytes<const N: usize>(of: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&of[at..at + N]);
    bytes
}

fn half(of: &[u8], at: usize) -> u64 {
    u16::from_ne_bytes(bytes(of, at)).into()
}

fn word(of: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes(of, at))
}

fn long(of: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes(of, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &[u8], kind: u32, content: &[u8]) -> Vec<u8> {
        let mut note = Vec::new();
        for n in [name.len() as u32, content.len() as u32, kind] {
            note.extend(n.to_ne_bytes());
        }
        for part in [name, content] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    #[test]
    fn the_id_is_found_behind_other_notes() {
        let other = note(b"GNU\0", 1, &[7; 16]);
        let id = note(b"GNU\0", NT_GNU_BUILD_ID, &[0xab, 0xcd, 0x01]);
        let both = [other.clone(), id.clone()].concat();
        assert_eq!(id_in(&both).as_deref(), Some("abcd01"));
        assert_eq!(id_in(&other), None);
        // cut in the middle, or with a length beyond the end
        for end in 0..id.len() - 1 {
            assert_eq!(id_in(&id[..end]), None, "{end}");
        }
        assert_eq!(id_in(&note(b"GNU\0", 1, &[])[..11]), None);
    }
}
