// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The data of an experiment as one table, written as CSV, as JSON and as Parquet.
use crate::definition::{Axis, Definition};
use crate::run::Run;
use alcc_results::row::{Kind, Value, csv_cell};
use alcc_results::scenario::probability;
use alcc_results::{About, Row};
use alcc_units::{Bytes, Rate, Span};
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A column. Its cells are empty, or of its kind.
struct Column {
    name: String,
    kind: Kind,
    cells: Vec<Cell>,
}

#[derive(Clone)]
enum Cell {
    Empty,
    Integer(u64),
    Float(f64),
    Text(String),
}

impl Cell {
    fn of(value: Value<'_>) -> Self {
        match value {
            Value::Unknown => Self::Empty,
            Value::Integer(n) => Self::Integer(n),
            Value::Float(n) => Self::Float(n),
            Value::Text(text) => Self::Text(text.to_owned()),
        }
    }

    fn csv(&self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Integer(n) => n.to_string(),
            Self::Float(n) => n.to_string(),
            Self::Text(text) => csv_cell(text),
        }
    }

    fn json(&self) -> serde_json::Value {
        match self {
            Self::Empty => serde_json::Value::Null,
            Self::Integer(n) => (*n).into(),
            Self::Float(n) => (*n).into(),
            Self::Text(text) => text.as_str().into(),
        }
    }
}

/// Every flow of every run; of a channel or an application every run. Figures of a learned delay
/// profile are those of the first flow.
pub struct Table(Vec<Column>);

impl Table {
    /// The number of the cell from 0, the choices of the axes, the number of the repetition, then what
    /// was measured. A field that no flow has is no column, unless all rows have it.
    ///
    /// An axis whose choices are numbers, times, rates or amounts of data is a number, and its name
    /// has the unit: `rtt_ms`. An axis that is called as a field is `axis_NAME`. That of the
    /// scenario's loss is the field `axis_loss`, a share.
    pub fn new(definition: &Definition, runs: &[Run]) -> Self {
        let mut columns: Vec<Column> = Vec::new();
        let each = |name: String, kind, cell: &dyn Fn(&Run) -> Cell| {
            let cells = runs
                .iter()
                .flat_map(|run| std::iter::repeat_n(cell(run), rows(run)));
            let cells = cells.collect();
            Column { name, kind, cells }
        };
        let mut cases: Vec<&[String]> = Vec::new();
        for run in runs {
            if !cases.contains(&run.cell.as_slice()) {
                cases.push(&run.cell);
            }
        }
        let case = |run: &Run| {
            let number = cases.iter().position(|cell| *cell == run.cell);
            number.map_or(Cell::Empty, |n| Cell::Integer(n as u64))
        };
        columns.push(each("case".to_owned(), Kind::Integer, &case));
        for (i, axis) in definition.sweep.iter().enumerate() {
            if is_configured_loss(axis, i, runs) {
                continue;
            }
            let measure = Measure::of(axis);
            let cell = |run: &Run| match (run.cell.get(i), &measure) {
                (Some(name), Some(measure)) => measure.value(name).map_or(Cell::Empty, Cell::Float),
                (Some(name), None) => Cell::Text(name.clone()),
                (None, _) => Cell::Empty,
            };
            let (name, kind) = match &measure {
                Some(measure) => (measure.column(&axis.key), Kind::Float),
                None => (axis.key.clone(), Kind::Text),
            };
            columns.push(each(column_of(&name, &columns, runs), kind, &cell));
        }
        let repetition = |run: &Run| Cell::Integer(run.repetition.into());
        columns.push(each("repetition".to_owned(), Kind::Integer, &repetition));
        let figures: BTreeSet<&String> = runs.iter().flat_map(|run| run.channel.keys()).collect();
        if figures.is_empty() || runs.iter().any(|run| !run.flows.is_empty()) {
            columns.extend(of_flows(runs));
        }
        columns.extend(figures.into_iter().map(|name| Column {
            name: name.clone(),
            kind: Kind::Float,
            cells: of_figure(name, runs),
        }));
        Self(columns)
    }

    fn number_of_rows(&self) -> usize {
        self.0.first().map_or(0, |column| column.cells.len())
    }

    /// The rows as JSON objects, which all have every column; a cell without a value is null.
    pub fn json(&self) -> impl Iterator<Item = serde_json::Map<String, serde_json::Value>> {
        let cells = move |i: usize| {
            let named = |column: &Column| (column.name.clone(), column.cells[i].json());
            self.0.iter().map(named).collect()
        };
        (0..self.number_of_rows()).map(cells)
    }

    /// The table as CSV with a header.
    pub fn csv(&self) -> String {
        let names: Vec<String> = self.0.iter().map(|column| csv_cell(&column.name)).collect();
        let mut text = names.join(",") + "\n";
        for i in 0..self.number_of_rows() {
            let cells = self.0.iter().map(|column| column.cells[i].csv());
            text += &(cells.collect::<Vec<_>>().join(",") + "\n");
        }
        text
    }

    /// The table as Parquet, with the types of the fields, and `about` as JSON in the file's
    /// metadata.
    ///
    /// # Errors
    /// The error of the library.
    pub fn parquet(&self, about: &About) -> Result<Vec<u8>, String> {
        self.write(about).map_err(|e| format!("write Parquet: {e}"))
    }

    fn write(&self, about: &About) -> Result<Vec<u8>, ParquetError> {
        let mut fields = Vec::new();
        for column in &self.0 {
            let (physical, logical) = match column.kind {
                // As in Python's tables, seeds have all 64 bits.
                Kind::Integer => (Physical::INT64, Some(LogicalType::integer(64, false))),
                Kind::Float => (Physical::DOUBLE, None),
                Kind::Text | Kind::List => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            };
            let field = Type::primitive_type_builder(&column.name, physical)
                .with_logical_type(logical)
                .with_repetition(Repetition::OPTIONAL);
            fields.push(Arc::new(field.build()?));
        }
        let schema = Type::group_type_builder("row")
            .with_fields(fields)
            .build()?;
        let about =
            serde_json::to_string(about).map_err(|e| ParquetError::General(e.to_string()))?;
        let about = KeyValue::new("about".to_owned(), about);
        let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![about]));
        let properties = Arc::new(properties.build());
        let mut file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), properties)?;
        let mut group = file.next_row_group()?;
        for column in &self.0 {
            if let Some(mut into) = group.next_column()? {
                column.write(&mut into)?;
                into.close()?;
            }
        }
        group.close()?;
        file.into_inner()
    }
}

impl Column {
    fn write(&self, into: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let is_there = |cell: &Cell| i16::from(!matches!(cell, Cell::Empty));
        let levels: Vec<i16> = self.cells.iter().map(is_there).collect();
        let levels = Some(levels.as_slice());
        match self.kind {
            Kind::Integer => {
                let whole = |cell: &Cell| match cell {
                    Cell::Integer(n) => Some(n.cast_signed()),
                    _ => None,
                };
                let values: Vec<i64> = self.cells.iter().filter_map(whole).collect();
                into.typed::<Int64Type>()
                    .write_batch(&values, levels, None)?;
            }
            Kind::Float => {
                let number = |cell: &Cell| match cell {
                    Cell::Float(n) => Some(*n),
                    _ => None,
                };
                let values: Vec<f64> = self.cells.iter().filter_map(number).collect();
                into.typed::<DoubleType>()
                    .write_batch(&values, levels, None)?;
            }
            Kind::Text | Kind::List => {
                let text = |cell: &Cell| match cell {
                    Cell::Text(text) => Some(ByteArray::from(text.as_str())),
                    _ => None,
                };
                let values: Vec<ByteArray> = self.cells.iter().filter_map(text).collect();
                into.typed::<ByteArrayType>()
                    .write_batch(&values, levels, None)?;
            }
        }
        Ok(())
    }
}

/// The quantity that all choices of an axis are.
enum Measure {
    Number,
    /// 0 to 1.
    Share,
    Time,
    Rate,
    Data,
}

impl Measure {
    fn of(axis: &Axis) -> Option<Self> {
        let all = [
            Self::Number,
            Self::Share,
            Self::Time,
            Self::Rate,
            Self::Data,
        ];
        all.into_iter().find(|measure| {
            let mut seen = Vec::new();
            axis.choices.iter().all(|choice| {
                // Choices that are the same number, such as 1s and 1000ms, stay two texts.
                let value = measure.value(&choice.name);
                let is_new = value.is_some() && !seen.contains(&value);
                seen.push(value);
                is_new
            })
        })
    }

    fn value(&self, text: &str) -> Option<f64> {
        match self {
            Self::Number => text.parse::<f64>().ok().filter(|n| n.is_finite()),
            Self::Share => probability(text).ok(),
            // Units that are a letter alone may be part of a name: 4G.
            Self::Time if text.ends_with('s') || text.ends_with("min") => {
                text.parse().ok().map(|time: Span| time.as_millis_f64())
            }
            Self::Rate => text.parse().ok().map(|rate: Rate| rate.as_mbps_f64()),
            Self::Data if text.ends_with('B') => {
                text.parse().ok().map(|data: Bytes| data.get() as f64)
            }
            Self::Time | Self::Data => None,
        }
    }

    /// The name of the axis with the unit.
    fn column(&self, key: &str) -> String {
        let unit = match self {
            Self::Number | Self::Share => "",
            Self::Time => "_ms",
            Self::Rate => "_mbps",
            Self::Data => "_bytes",
        };
        format!("{}{unit}", key.strip_suffix(unit).unwrap_or(key))
    }
}

/// The column of an axis, beside those that are there: each name has one meaning.
fn column_of(key: &str, columns: &[Column], runs: &[Run]) -> String {
    let is_taken = |name: &str| {
        let own = ["experiment", "case", "repetition"];
        own.contains(&name)
            || Row::KINDS.iter().any(|(field, _)| *field == name)
            || columns.iter().any(|column| column.name == name)
            || runs.iter().any(|run| run.channel.contains_key(name))
    };
    let mut name = key.to_owned();
    while is_taken(&name) {
        name.insert_str(0, "axis_");
    }
    name
}

/// True if the rows have this axis already: it is the loss of the scenario, which is a field.
fn is_configured_loss(axis: &Axis, number: usize, runs: &[Run]) -> bool {
    let is_in_rows = |run: &Run| {
        let loss = run.cell.get(number).map(|name| probability(name));
        let loss = loss.and_then(Result::ok);
        run.flows.iter().all(|row| row.axis_loss == loss)
    };
    axis.key == "loss"
        && runs.iter().any(|run| !run.flows.is_empty())
        && runs.iter().all(is_in_rows)
}

/// A row for each flow; one for a run that has figures alone.
fn rows(run: &Run) -> usize {
    (run.flows.len()).max(usize::from(!run.channel.is_empty()))
}

fn of_figure(name: &str, runs: &[Run]) -> Vec<Cell> {
    let value = |run: &Run, row: usize| {
        let value = run.channel.get(name).filter(|_| row == 0);
        value.map_or(Cell::Empty, |v| Cell::Float(*v))
    };
    let cells = |run| (0..rows(run)).map(move |row| value(run, row));
    runs.iter().flat_map(cells).collect()
}

fn of_flows(runs: &[Run]) -> Vec<Column> {
    let rows: Vec<BTreeMap<&str, Value<'_>>> = runs
        .iter()
        .flat_map(|run| &run.flows)
        .map(|row| row.fields().collect())
        .collect();
    let always = |name: &str| Row::CONFIGURATION.contains(&name) || Row::MEASURED.contains(&name);
    let kinds = Row::KINDS.iter().filter(|(name, kind)| {
        *kind != Kind::List && (always(name) || rows.iter().any(|row| row.contains_key(name)))
    });
    kinds
        .map(|&(name, kind)| Column {
            name: name.to_owned(),
            kind,
            cells: rows
                .iter()
                .map(|row| row.get(name).copied().map_or(Cell::Empty, Cell::of))
                .collect(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::Choice;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    const TEXT: &str = r#"title = "t"
source = "s"
statement = "x"
[scenario]
link = "12mbit"
flow = "{scheme}"
[[sweep]]
key = "scheme"
values = [{ name = "a, b", scheme = "copa" }]
"#;

    fn run(flows: Vec<Row>, figures: &[(&str, f64)]) -> Run {
        Run {
            cell: vec!["a, b".to_owned()],
            repetition: 2,
            command: String::new(),
            version: String::new(),
            flows,
            summary: None,
            channel: figures
                .iter()
                .map(|(name, v)| ((*name).to_owned(), *v))
                .collect(),
            profiles: Vec::new(),
            seconds: Vec::new(),
            notes: Vec::new(),
            error: None,
        }
    }

    fn row(mbps: Option<f64>, bytes: u64) -> Row {
        Row {
            scheme: "copa".to_owned(),
            throughput_mbps: mbps,
            bytes: Some(bytes),
            ..Row::default()
        }
    }

    fn read(table: &Table) -> Vec<BTreeMap<String, Field>> {
        let reader = SerializedFileReader::new(bytes::Bytes::from(
            table.parquet(&About::default()).unwrap(),
        ));
        let rows = reader.unwrap();
        let rows = rows.get_row_iter(None).unwrap();
        rows.map(|row| row.unwrap().into_columns().into_iter().collect())
            .collect()
    }

    #[test]
    fn both_forms_have_the_same_cells() {
        let definition = Definition::from_toml(TEXT, "e.toml").unwrap();
        let runs = [run(vec![row(Some(1.5), 7), row(None, u64::MAX)], &[])];
        let table = Table::new(&definition, &runs);
        let csv = table.csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(
            lines[0].starts_with("case,axis_scheme,repetition,scheme,algorithm,"),
            "{csv}"
        );
        assert!(lines[1].starts_with("0,\"a, b\",2,copa,"), "{csv}");
        let rows = read(&table);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0]["axis_scheme"], Field::Str("a, b".to_owned()));
        assert_eq!(rows[0]["scheme"], Field::Str("copa".to_owned()));
        assert_eq!(rows[0]["repetition"], Field::ULong(2));
        assert_eq!(rows[0]["throughput_mbps"], Field::Double(1.5));
        assert_eq!(rows[1]["throughput_mbps"], Field::Null);
        assert_eq!(rows[1]["bytes"], Field::ULong(u64::MAX));
        let fields = lines[0].split(',').count();
        assert!(rows.iter().all(|row| row.len() == fields));
    }

    /// JSON, CSV, Parquet, and Python's tables, whose columns are [`Row::KINDS`].
    #[test]
    fn every_form_has_the_same_columns_once() {
        use alcc_results::scenario::ScenarioOptions;
        use alcc_results::simulated::Simulated;
        let text = r#"title = "t"
source = "s"
statement = "x"
[scenario]
link = "8mbit"
flow = "cubic"
up = "{up}"
loss = "{loss}"
duration = "1s"
[[sweep]]
key = "loss"
values = ["0%", "2%"]
[[sweep]]
key = "up"
values = ["1mbit", "2mbit"]
"#;
        let definition = Definition::from_toml(text, "e.toml").unwrap();
        let simulated = |cell: [&str; 2]| {
            let text = format!(
                "link = '8mbit'\nflow = 'cubic'\nduration = '1s'\nradio = 'jitter:most=1ms'\nstep = '1s:rate=9mbit'\nloss = '{}'\nup = '{}'",
                cell[0], cell[1]
            );
            let options = ScenarioOptions::from_toml(&text, "s").unwrap();
            let registry = alcc_zoo::registry();
            let resolved = options.resolve(&registry, &()).unwrap();
            let report = alcc_sim::run(&resolved.scenario).unwrap();
            Run {
                cell: cell.map(str::to_owned).to_vec(),
                repetition: 1,
                ..run(Simulated::rows(&resolved, &report), &[])
            }
        };
        let cells = [
            ["0%", "1mbit"],
            ["0%", "2mbit"],
            ["2%", "1mbit"],
            ["2%", "2mbit"],
        ];
        let runs = cells.map(simulated);
        let table = Table::new(&definition, &runs);
        let csv = table.csv();
        let header: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
        let once: BTreeSet<&str> = header.iter().copied().collect();
        assert_eq!(once.len(), header.len(), "{csv}");
        let parquet = SerializedFileReader::new(bytes::Bytes::from(
            table.parquet(&About::default()).unwrap(),
        ));
        let parquet = parquet.unwrap();
        let schema = parquet.metadata().file_metadata().schema_descr();
        let names = schema
            .columns()
            .iter()
            .map(|column| column.name().to_owned());
        assert_eq!(names.collect::<Vec<_>>(), header);
        let objects: Vec<_> = table.json().collect();
        assert_eq!(objects.len(), runs.len());
        for object in &objects {
            assert_eq!(object.keys().collect::<Vec<_>>(), header);
        }
        assert_eq!(objects[3]["axis_loss"], 0.02);
        // A number with its unit; the field keeps what was configured.
        assert_eq!(objects[3]["up_mbps"], 2.0);
        assert_eq!(objects[3]["up"], "2mbit");
        assert_eq!(header[..3], ["case", "up_mbps", "repetition"]);
        let json = serde_json::to_value(&runs[3].flows[0]).unwrap();
        for (name, value) in json.as_object().unwrap() {
            let (_, kind) = Row::KINDS.iter().find(|(field, _)| field == name).unwrap();
            let right = match kind {
                Kind::Text => value.is_string(),
                Kind::Integer => value.is_u64(),
                Kind::Float => value.is_number(),
                Kind::List => continue,
            };
            assert!(right || value.is_null(), "{name}: {value}");
            assert!(once.contains(name.as_str()), "{name}");
        }
        assert_eq!(json["axis_loss"], 0.02);
        assert_eq!(json["up"], "2mbit");
        assert_eq!(json["radio"], "jitter:most=1ms");
        assert_eq!(json["steps"], "1s:rate=9mbit");
        let rows = read(&table);
        for (number, row) in rows.iter().enumerate() {
            assert_eq!(row["case"], Field::ULong(number as u64));
        }
        assert_eq!(rows[2]["axis_loss"], Field::Double(0.02));
        assert_eq!(rows[2]["up_mbps"], Field::Double(1.0));
    }

    #[test]
    fn axes_are_numbers_with_a_unit_where_all_choices_are() {
        for (key, choices, column) in [
            ("rtt", ["20ms", "1s"], Some(("rtt_ms", [20.0, 1000.0]))),
            (
                "rate",
                ["500kbit", "2mbit"],
                Some(("rate_mbps", [0.5, 2.0])),
            ),
            ("size", ["3000", "5e4"], Some(("size", [3000.0, 5e4]))),
            ("size", ["3kB", "1MB"], Some(("size_bytes", [3e3, 1e6]))),
            ("radio-loss", ["0", "5%"], Some(("radio-loss", [0.0, 0.05]))),
            ("wait_ms", ["2ms", "3ms"], Some(("wait_ms", [2.0, 3.0]))),
            ("link", ["12mbit", "lte"], None),
            ("rtt", ["20ms", "2mbit"], None),
            ("rtt", ["nan", "inf"], None),
            ("net", ["3G", "4G"], None),
            ("x", ["5m", "10m"], None),
            ("rtt", ["1s", "1000ms"], None),
            ("seed", ["9007199254740992", "9007199254740993"], None),
        ] {
            let choices = choices.map(|name| Choice {
                name: name.to_owned(),
                set: BTreeMap::new(),
            });
            let axis = Axis {
                key: key.to_owned(),
                choices: choices.to_vec(),
            };
            let found = Measure::of(&axis).map(|measure| {
                let values = choices.map(|choice| measure.value(&choice.name).unwrap());
                (measure.column(key), values)
            });
            let wanted = column.map(|(name, values)| (name.to_owned(), values));
            assert_eq!(found, wanted, "{key}");
        }
        // Another axis has the name already.
        let twice = TEXT.replace(
            "[[sweep]]",
            "[[sweep]]\nkey = \"rtt\"\nvalues = [\"20ms\"]\n[[sweep]]\nkey = \"rtt_ms\"\nvalues = [\"1\"]\n[[sweep]]",
        );
        let twice = twice.replace(
            "flow = \"{scheme}\"",
            "flow = \"{scheme}:x={rtt_ms}\"\nrtt = \"{rtt}\"",
        );
        let definition = Definition::from_toml(&twice, "e.toml").unwrap();
        let runs = [Run {
            cell: ["20ms", "1", "a, b"].map(str::to_owned).to_vec(),
            ..run(vec![row(None, 1)], &[])
        }];
        let csv = Table::new(&definition, &runs).csv();
        let header = "case,rtt_ms,axis_rtt_ms,axis_scheme,repetition,";
        assert!(csv.starts_with(header), "{csv}");
    }

    #[test]
    fn figures_beside_flows_are_in_the_row_of_the_first() {
        let definition = Definition::from_toml(TEXT, "e.toml").unwrap();
        let flows = || vec![row(Some(1.5), 7), row(None, 8)];
        let runs = [run(flows(), &[("curve_rise", 2.5)]), run(flows(), &[])];
        let table = Table::new(&definition, &runs);
        let csv = table.csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 5, "{csv}");
        assert!(lines[0].ends_with(",curve_rise"), "{csv}");
        assert!(lines[1].ends_with(",2.5"), "{csv}");
        assert!(lines[2..].iter().all(|line| line.ends_with(',')), "{csv}");
        let rows = read(&table);
        assert_eq!(rows[0]["curve_rise"], Field::Double(2.5));
        assert_eq!(rows[1]["bytes"], Field::ULong(8));
    }

    #[test]
    fn figures_without_flows_are_a_row_for_each_run() {
        let definition = Definition::from_toml(TEXT, "e.toml").unwrap();
        let runs = [
            run(Vec::new(), &[("load_ms", 80.5)]),
            run(Vec::new(), &[("loss", 0.25)]),
        ];
        let table = Table::new(&definition, &runs);
        assert_eq!(
            table.csv(),
            "case,axis_scheme,repetition,load_ms,loss\n0,\"a, b\",2,80.5,\n0,\"a, b\",2,,0.25\n"
        );
        assert_eq!(read(&table)[1]["loss"], Field::Double(0.25));
        let none = Table::new(&definition, &[]);
        assert_eq!(none.csv().lines().count(), 1);
        assert_eq!(read(&none).len(), 0);
    }
}
