// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Acknowledgements of our own inside any byte stream, for both ends of a connection.
mod arrivals;
pub mod carrier;
mod error;
pub mod frame;
mod kernel;
mod output;
pub mod preface;
mod session;
mod settings;
mod stream;

pub use error::Error;
pub use output::Output;
pub use session::{Session, Stats, When};
pub use settings::Settings;
pub use stream::{Info, Stream};
