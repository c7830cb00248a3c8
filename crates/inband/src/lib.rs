// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Acknowledgements of our own inside any byte stream, for both ends of a connection.
