// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The constants of algorithms that have forms in other languages.
//!
//! [`constants!`](crate::constants) declares them where they are used, and lists them for `make constants`, which
//! writes them for the BPF programs, for Java and for docs/budget.md (`lab/zoo/tests/constants.rs`).
use alcc_units::Span;

/// A constant of an algorithm, for its other forms.
#[derive(Debug)]
pub struct Constant {
    /// With its part before it: `DRAINS_PERIOD`.
    pub name: &'static str,
    /// In Rust.
    pub value: Value,
    /// Lines of its comment.
    pub meaning: &'static [&'static str],
    /// In the kernel.
    pub kernel: Kernel,
}

/// Type and value of a constant.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// A time.
    Span(Span),
    /// `f64`.
    Number(f64),
    /// `f32`.
    Single(f32),
    /// An integer.
    Whole(u64),
}

/// The form of a constant in the kernel, where there are only integers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kernel {
    /// Microseconds, or the same number.
    Same,
    /// So many parts are one: `NAME` is a number of parts, `NAME_OF` this.
    Of(u64),
    /// Another value, and the reason.
    Instead(u64, &'static str),
}

/// Declares constants, and `TABLE` of them. `constants! { PART: /// meaning  NAME: type = value; ... }`, where
/// `value, of 100` is per cent in the kernel, and `value, kernel 16 because "..."` another value there.
#[macro_export]
#[doc(hidden)]
macro_rules! constants {
    (@value Span $value:expr) => { $crate::constants::Value::Span($value) };
    (@value f64 $value:expr) => { $crate::constants::Value::Number($value) };
    (@value f32 $value:expr) => { $crate::constants::Value::Single($value) };
    (@value $integer:ident $value:expr) => { $crate::constants::Value::Whole($value) };
    (@kernel) => { $crate::constants::Kernel::Same };
    (@kernel of $parts:literal) => { $crate::constants::Kernel::Of($parts) };
    (@kernel instead $value:literal $why:literal) => { $crate::constants::Kernel::Instead($value, $why) };
    ($part:ident: $(
        $(#[doc = $doc:literal])+
        $vis:vis $name:ident: $type:ident = $value:expr
            $(, of $parts:literal)? $(, kernel $instead:literal because $why:literal)?;
    )+) => {
        $($(#[doc = $doc])+ $vis const $name: $type = $value;)+
        /// The constants above, for other forms.
        pub(crate) const TABLE: &[$crate::constants::Constant] = &[$($crate::constants::Constant {
            name: concat!(stringify!($part), "_", stringify!($name)),
            value: $crate::constants!(@value $type $value),
            meaning: &[$($doc),+],
            kernel: $crate::constants!(@kernel $(of $parts)? $(instead $instead $why)?),
        }),+];
    };
}

/// The constants of this crate, by part.
pub const TABLES: &[&[&[Constant]]] = &[
    crate::parts::TABLES,
    crate::algorithms::budget::TABLES,
    crate::algorithms::copa::TABLES,
    crate::algorithms::verus::TABLES,
    &[crate::algorithms::bic::TABLE],
];
