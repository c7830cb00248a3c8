// SPDX-License-Identifier: Apache-2.0 OR MIT
/// Rows of cells as lines of text: the first column left-aligned, the others right-aligned.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells
            .map(|cell: &String| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (n, cell) in row.iter().enumerate() {
            let w = widths[n];
            if n == 0 {
                line += &format!("{cell:<w$}");
            } else {
                line += &format!("  {cell:>w$}");
            }
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [["a", "b"], ["cc", "100"]].map(|r| r.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "a     b\ncc  100\n");
    }
}
