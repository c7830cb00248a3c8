// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::fs::File;
use std::io::{self, Read};

/// Bytes that nobody can guess.
///
/// # Errors
/// The system provides no random numbers.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map(|()| bytes)
}
