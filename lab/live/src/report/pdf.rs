// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A figure as PDF (ISO 32000-1): one page of vector drawing, for a paper. It translates the
//! elements of our own drawings. Text is set in Helvetica, which every reader has, so it is not
//! embedded.
use crate::chart::FINE;
use std::fmt::Write as _;

/// Steps of opacity; each has a graphics state in the file.
const STATES: f64 = 20.0;
/// Points per unit of the drawing: a pixel of a page is 1/96 inch.
const SCALE: f64 = 0.75 / FINE as f64;
/// The longest side of a page, points (ISO 32000-1, annex C).
const TALLEST: f64 = 14_400.0;
/// Height of a lower-case x, in font sizes.
const EX: f64 = 0.523;
/// Distance of the control points of a quarter of a circle, in radii.
const QUARTER: f64 = 0.5523;

/// Widths of the characters from space to `~` in Helvetica, thousandths of the font size (Adobe's
/// metrics of the standard fonts).
const WIDTHS: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
];

/// The PDF, which is ASCII, of a figure that is an SVG of [`super::figure`]. `about` describes the
/// file.
///
/// # Errors
/// An element that these drawings do not have.
pub fn pdf(svg: &str, about: &str) -> Result<String, String> {
    let (root, mut rest) = svg
        .strip_prefix("<svg ")
        .and_then(|svg| svg.split_once('>'))
        .ok_or("not a drawing")?;
    // The label before it may hold any text.
    let (_, root) = root
        .rsplit_once("viewBox=")
        .ok_or("a drawing without size")?;
    let [width, height] = [number(root, "width")?, number(root, "height")?];
    if height * 0.75 > TALLEST {
        return Err(
            "the page would be higher than a PDF may be: draw fewer links, or an SVG".to_owned(),
        );
    }
    let mut page = Page::default();
    let to_points = [SCALE, 0.0, 0.0, -SCALE, 0.0, height * 0.75];
    page.say(&to_points, "cm");
    // As in SVG.
    page.say(&[4.0], "M");
    while let Some((_, from)) = rest.split_once('<') {
        let (element, after) = from.split_once('>').ok_or("an element without end")?;
        rest = after;
        let (name, attributes) = element.split_once(' ').unwrap_or((element, ""));
        match name {
            "text" => {
                let (text, after) = after.split_once("</text>").ok_or("a text without end")?;
                rest = after;
                page.text(attributes, text.trim_matches('\n'))?;
            }
            "metadata" => {
                rest = after.split_once("</metadata>").ok_or("no end of it")?.1;
            }
            "/svg" => break,
            shape => page.shape(shape, attributes)?,
        }
    }
    Ok(file([width, height].map(|px| px * 0.75), &page.0, about))
}

/// The objects of the file, their places, and the trailer.
fn file([width, height]: [f64; 2], content: &str, about: &str) -> String {
    let font = |name: &str| {
        format!("<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>")
    };
    // UTF-16 with its mark, because names of links and commands may have any characters.
    let about = std::iter::once(0xfeff).chain(about.encode_utf16());
    let about: String = about.map(|unit| format!("{unit:04x}")).collect();
    let states: String = (0..=STATES as u32)
        .map(|state| {
            let opacity = f64::from(state) / STATES;
            format!("/G{state} << /ca {opacity} /CA {opacity} >> ")
        })
        .collect();
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width} {height}] /Contents 4 0 R \
             /Resources << /Font << /R 5 0 R /B 6 0 R >> /ExtGState << {states}>> >> >>"
        ),
        format!(
            "<< /Length {} >>\nstream\n{content}endstream",
            content.len()
        ),
        font("Helvetica"),
        font("Helvetica-Bold"),
        format!("<< /Subject <{about}> >>"),
    ];
    let mut out = "%PDF-1.4\n".to_owned();
    let mut places = String::new();
    for (object, number) in objects.iter().zip(1..) {
        let _ = writeln!(places, "{:010} 00000 n ", out.len());
        let _ = writeln!(out, "{number} 0 obj\n{object}\nendobj");
    }
    let (start, size) = (out.len(), objects.len() + 1);
    let _ = write!(
        out,
        "xref\n0 {size}\n0000000000 65535 f \n{places}trailer\n\
         << /Size {size} /Root 1 0 R /Info 7 0 R >>\nstartxref\n{start}\n%%EOF\n"
    );
    out
}

/// The value of an attribute.
fn attribute<'a>(attributes: &'a str, name: &str) -> Option<&'a str> {
    let start = format!("{name}=\"");
    let mut found = attributes.match_indices(&*start);
    // Not the end of a longer name.
    let (at, start) = found.find(|(at, _)| *at == 0 || attributes[..*at].ends_with(' '))?;
    attributes[at + start.len()..].split('"').next()
}

fn number(attributes: &str, name: &str) -> Result<f64, String> {
    let value = attribute(attributes, name).ok_or_else(|| format!("no {name} in {attributes}"))?;
    value
        .parse()
        .map_err(|_| format!("{name} is {value}, not a number"))
}

/// The operators of a page, in units of the drawing. They are ASCII.
#[derive(Default)]
struct Page(String);

impl Page {
    fn say(&mut self, operands: &[f64], operator: &str) {
        for operand in operands {
            let _ = write!(self.0, "{} ", (operand * 1e4).round() / 1e4);
        }
        self.0.push_str(operator);
        self.0.push('\n');
    }

    /// Sets the colour of lines (`RG`) or areas (`rg`), and how much shines through; false if there
    /// is no colour.
    fn colour(&mut self, attributes: &str, name: &str, operator: &str) -> Result<bool, String> {
        let Some(hex) = attribute(attributes, name).and_then(|c| c.strip_prefix('#')) else {
            return Ok(false);
        };
        let value = u32::from_str_radix(hex, 16).map_err(|_| format!("the colour #{hex}"))?;
        let [_, parts @ ..] = value.to_be_bytes();
        self.say(&parts.map(|byte| f64::from(byte) / 255.0), operator);
        let opacity = number(attributes, "opacity").unwrap_or(1.0);
        let state = (opacity.clamp(0.0, 1.0) * STATES).round();
        let _ = writeln!(self.0, "/G{state} gs");
        Ok(true)
    }

    fn shape(&mut self, name: &str, attributes: &str) -> Result<(), String> {
        let filled = self.colour(attributes, "fill", "rg")?;
        let drawn = self.colour(attributes, "stroke", "RG")?;
        if drawn {
            self.say(&[number(attributes, "stroke-width").unwrap_or(1.0)], "w");
            let dashes = attribute(attributes, "stroke-dasharray").unwrap_or_default();
            let _ = writeln!(self.0, "[{dashes}] 0 d");
        }
        let get = |name: &str| number(attributes, name);
        match name {
            "rect" => {
                let rectangle = [get("x")?, get("y")?, get("width")?, get("height")?];
                self.say(&rectangle, "re");
            }
            "line" => {
                self.say(&[get("x1")?, get("y1")?], "m");
                self.say(&[get("x2")?, get("y2")?], "l");
            }
            "polyline" | "polygon" => {
                let points = attribute(attributes, "points").unwrap_or_default();
                for (point, n) in points.split_whitespace().zip(0..) {
                    let both = point.split_once(',').map(|(x, y)| (x.parse(), y.parse()));
                    let Some((Ok(x), Ok(y))) = both else {
                        return Err(format!("the point {point}"));
                    };
                    self.say(&[x, y], if n == 0 { "m" } else { "l" });
                }
                if name == "polygon" {
                    self.say(&[], "h");
                }
            }
            "circle" => {
                let [x, y, r] = [get("cx")?, get("cy")?, get("r")?];
                self.say(&[x + r, y], "m");
                let (mut from, k) = ((1.0, 0.0), QUARTER);
                for to in [(0.0, 1.0), (-1.0, 0.0), (0.0, -1.0), (1.0, 0.0)] {
                    let near = (from.0 + k * to.0, from.1 + k * to.1);
                    let far = (to.0 + k * from.0, to.1 + k * from.1);
                    let curve = [near, far, to].map(|p| [x + r * p.0, y + r * p.1]);
                    self.say(&curve.concat(), "c");
                    from = to;
                }
            }
            _ => return Err(format!("the element {name}")),
        }
        self.say(
            &[],
            match (filled, drawn) {
                (true, true) => "B",
                (true, false) => "f",
                (false, true) => "S",
                (false, false) => "n",
            },
        );
        Ok(())
    }

    fn text(&mut self, attributes: &str, text: &str) -> Result<(), String> {
        if !self.colour(attributes, "fill", "rg")? {
            return Ok(());
        }
        let get = |name: &str| number(attributes, name);
        let [x, y, size] = [get("x")?, get("y")?, get("font-size")?];
        let bytes = in_win_ansi(text);
        let width = |byte: &u8| WIDTHS.get(usize::from(*byte).wrapping_sub(32));
        let widths = bytes.iter().map(|b| f64::from(*width(b).unwrap_or(&556)));
        let width = widths.sum::<f64>() * size / 1e3;
        let before = match attribute(attributes, "text-anchor") {
            Some("middle") => width / 2.0,
            Some("end") => width,
            _ => 0.0,
        };
        let dy = attribute(attributes, "dy").unwrap_or_default();
        let part = |unit: &str| dy.strip_suffix(unit)?.parse::<f64>().ok();
        let down = part("em").or_else(|| Some(part("ex")? * EX)).unwrap_or(0.0) * size;
        // An axis' title is turned about its place. The text's own y goes upwards.
        let turned =
            attribute(attributes, "transform").is_some_and(|t| t.starts_with("rotate(270"));
        let bold = attribute(attributes, "font-weight") == Some("bold");
        let matrix = if turned {
            [0.0, -1.0, -1.0, 0.0, x + down, y + before]
        } else {
            [1.0, 0.0, 0.0, -1.0, x - before, y + down]
        };
        let font = if bold { "B" } else { "R" };
        let _ = writeln!(self.0, "BT /{font} {size} Tf");
        self.say(&matrix, "Tm");
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let _ = writeln!(self.0, "<{hex}> Tj ET");
        Ok(())
    }
}

/// The text in the encoding of the fonts; a character that it lacks is `?`.
fn in_win_ansi(text: &str) -> Vec<u8> {
    let text = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&amp;", "&");
    let byte = |c: char| match c {
        ' '..='~' | '\u{a0}'..='\u{ff}' => u8::try_from(u32::from(c)).unwrap_or(b'?'),
        '…' => 0x85,
        '‘' => 0x91,
        '’' => 0x92,
        '“' => 0x93,
        '”' => 0x94,
        '–' => 0x96,
        '—' => 0x97,
        '−' => b'-',
        _ => b'?',
    };
    text.chars().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "<svg aria-label=\" width=\" viewBox=\"0 0 300 150\" width=\"100\" height=\"50\"><metadata>{}</metadata>";

    fn drawn(elements: &str) -> String {
        pdf(&format!("{ROOT}{elements}</svg>"), "é").unwrap()
    }

    #[test]
    fn every_object_is_where_the_table_says() {
        let text = drawn("<rect x=\"0\" y=\"0\" width=\"3\" height=\"3\" fill=\"#FF0000\"/>");
        assert!(text.contains("/MediaBox [0 0 75 37.5]"), "{text}");
        assert!(text.contains("/Subject <feff00e9>"), "{text}");
        let start = text.split("startxref\n").nth(1).unwrap().lines().next();
        let table = &text[start.unwrap().parse::<usize>().unwrap()..];
        assert!(
            table.starts_with("xref\n0 8\n0000000000 65535 f \n"),
            "{table}"
        );
        for (line, number) in table.lines().skip(3).take(7).zip(1..) {
            assert_eq!(line.len(), 19, "with its end of line, 20 bytes");
            let at: usize = line[..10].parse().unwrap();
            assert!(
                text[at..].starts_with(&format!("{number} 0 obj\n")),
                "{line}"
            );
        }
        let (head, content) = text.split_once("stream\n").unwrap();
        let length = head.rsplit("/Length ").next().unwrap();
        let length: usize = length.split(' ').next().unwrap().parse().unwrap();
        assert!(content[length..].starts_with("endstream"));
    }

    #[test]
    fn elements_become_operators() {
        for (element, operators) in [
            (
                "<rect x=\"0\" y=\"1\" width=\"2\" height=\"3\" opacity=\"0.5\" fill=\"#FF0000\" stroke=\"none\"/>",
                "1 0 0 rg\n/G10 gs\n0 1 2 3 re\nf\n",
            ),
            (
                "<line opacity=\"1\" stroke=\"#000000\" stroke-width=\"3\" x1=\"1\" y1=\"2\" x2=\"3\" y2=\"4\"/>",
                "0 0 0 RG\n/G20 gs\n3 w\n[] 0 d\n1 2 m\n3 4 l\nS\n",
            ),
            (
                "<polyline fill=\"none\" stroke=\"#0000FF\" stroke-dasharray=\"6 9\" stroke-width=\"6\" points=\"1,2 3,4 5,6 \"/>",
                "0 0 1 RG\n/G20 gs\n6 w\n[6 9] 0 d\n1 2 m\n3 4 l\n5 6 l\nS\n",
            ),
            (
                "<circle cx=\"10\" cy=\"10\" r=\"2\" fill=\"#00FF00\"/>",
                "0 1 0 rg\n/G20 gs\n12 10 m\n12 11.1046 11.1046 12 10 12 c\n",
            ),
            // "ab" is 1.112 sizes wide.
            (
                "<text x=\"100\" y=\"50\" dy=\"0.76em\" text-anchor=\"end\" font-size=\"10\" fill=\"#000000\">\nab\n</text>",
                "BT /R 10 Tf\n1 0 0 -1 88.88 57.6 Tm\n<6162> Tj ET\n",
            ),
            (
                "<text x=\"100\" y=\"50\" dy=\"0.76em\" text-anchor=\"middle\" font-size=\"10\" font-weight=\"bold\" fill=\"#000000\" transform=\"rotate(270, 100, 50)\">\na–&apos;\n</text>",
                "BT /B 10 Tf\n0 -1 -1 0 107.6 56.515 Tm\n<619627> Tj ET\n",
            ),
        ] {
            let text = drawn(element);
            assert!(text.contains(operators), "{element}: {text}");
        }
        assert!(pdf(&format!("{ROOT}<ellipse/></svg>"), "").is_err());
        assert!(pdf("<html>", "").is_err());
    }
}
