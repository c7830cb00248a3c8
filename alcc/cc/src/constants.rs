// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The constants of algorithms that have forms in other languages.
//!
//! The macro `constants` declares them where they are used, and lists them for `make constants`, which
//! writes them for the BPF programs, for Java and for docs/budget.md (`lab/zoo/tests/constants.rs`).
use alcc_units::Span;

/// A constant of an algorithm, for its other forms.
#[derive(Debug)]
pub struct Constant {
    /// The name, with its part as prefix: `DRAINS_PERIOD`.
    pub name: &'static str,
    /// The value in Rust.
    pub value: Value,
    /// The lines of its doc comment.
    pub meaning: &'static [&'static str],
    /// The value in the kernel.
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

/// The value of a constant in the kernel, which has only integers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kernel {
    /// The same number, or the time in microseconds.
    Same,
    /// A fraction: `NAME` is the numerator, `NAME_OF` this denominator.
    Of(u64),
    /// Another value, with the reason.
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
