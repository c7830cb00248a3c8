// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The order of experiments, here and when the package is built.

/// A name for sorting: figure 5 comes before figure 10.
pub(crate) fn by_number(id: &str) -> String {
    let mut sorted = String::new();
    let mut rest = id;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(at);
        let end = from
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(from.len());
        let (number, after) = from.split_at(end);
        sorted += &format!("{before}{number:0>9}");
        rest = after;
    }
    sorted + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_in_the_order_of_their_numbers() {
        let mut ids = [
            "alcc-fig10",
            "alcc-fig5",
            "alcc-fig16-buffer",
            "alcc-fig1b",
            "alcc-fig16",
            "alcc-fig1a",
            "hsdpa-jain",
        ];
        ids.sort_by_cached_key(|id| by_number(id));
        assert_eq!(
            ids,
            [
                "alcc-fig1a",
                "alcc-fig1b",
                "alcc-fig5",
                "alcc-fig10",
                "alcc-fig16",
                "alcc-fig16-buffer",
                "hsdpa-jain"
            ]
        );
    }
}
