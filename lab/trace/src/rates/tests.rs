// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;

fn read(text: &str, form: &RatesForm) -> Result<Vec<u32>, String> {
    let trace = Trace::from_rates(text, form);
    trace
        .map(|t| t.opportunities().to_vec())
        .map_err(|e| e.to_string())
}

fn plain(text: &str) -> Result<Vec<u32>, String> {
    read(text, &RatesForm::default())
}

/// 12 Mbit/s for 4 ms, then 6 Mbit/s for 4 ms.
const SAME: [u32; 6] = [1, 2, 3, 4, 6, 8];

#[test]
fn names_and_units_of_columns_are_read() {
    for text in [
        "5.000 12\n5.004 6\n",
        "\u{feff}seconds,mbps\r\n5.000,12\r\n5.004,6\r\n",
        "seconds,kbps\n0,12000\n0.004,6000\n",
        "timestamp,bandwidth_kbps\n0,12000\n0.004,6000\n",
        "mbps,time_ms\n12,100\n6,104\n",
        "time_ms;rate (Mbit/s)\n0,0;12,0\n4,0;6,0\n",
        "seconds\tbits_per_second\n0\t12e6\n0.004\t6e6\n",
        "# of mine\nseconds,rtt_ms,MB/s\n0,40,1.5\n0.004,40,0.75\n",
        "duration_ms,rate_MBps\n4,1.5\n4,0.75\n",
        "time_ms,bytes\n0,6000\n4,3000\n",
        "time,RATE_KBPS\n2026-11-28 00:00:00.000,12000\n2026-11-28T00:00:00.004Z,6000\n",
    ] {
        assert_eq!(plain(text).as_deref(), Ok(&SAME[..]), "{text}");
    }
    let every = Some(Span::from_millis(4));
    let form = |column: Option<&str>, unit: Option<&str>| RatesForm {
        column: column.map(str::to_owned),
        unit: unit.map(str::to_owned),
        every,
    };
    for (text, form) in [
        ("12\n6\n", form(None, None)),
        ("a,12000\nb,6000\n", form(Some("2"), Some("kbit"))),
        (
            "x,speed\na,1.5\nb,0.75\n",
            form(Some("speed"), Some("MB/s")),
        ),
        (
            "x,speed\na,6000\nb,3000\n",
            form(Some("speed"), Some("bytes")),
        ),
    ] {
        assert_eq!(read(text, &form).as_deref(), Ok(&SAME[..]), "{text}");
    }
}

#[test]
fn a_length_of_rows_that_have_times_is_refused() {
    for (text, column, named) in [
        ("seconds,mbps\n0,12\n4,6\n", None, "column seconds has"),
        ("a,b\n0,12\n4,6\n", Some("a,b"), "column a has"),
        ("0,12\n4,6\n", Some("1,2"), "column 1 has"),
    ] {
        let form = RatesForm {
            column: column.map(str::to_owned),
            unit: Some("Mbit".to_owned()),
            every: Some(Span::from_secs(1)),
        };
        let error = read(text, &form).unwrap_err();
        assert!(
            error.contains(named) && error.contains("--every"),
            "{error}"
        );
        // Selecting only the rate means that the times do not count.
        let alone = RatesForm {
            column: Some("2".to_owned()),
            ..form
        };
        assert!(read(text, &alone).is_ok(), "{text}");
    }
}

#[test]
fn the_public_forms_are_read_as_they_are() {
    // Synthetic files of the same shape, each 1.2 Mbit/s for 1 s, then 2.4 for 1 s.
    for text in [
        "1.2,Mbits/sec\n2400,Kbits/sec\n",
        "Timestamp,Longitude,NetworkMode,RSRP,DL_bitrate,UL_bitrate\n2019.11.25_15.34.59,-8.4,5G,-96,1000,3\n2019.11.25_15.34.59,-8.4,5G,-96,1400,3\n2019.11.25_15.35.00,-8.4,5G,-96,2400,5\n",
        r#"[{"duration_ms": 1000, "bandwidth_kbps": 1200, "latency_ms": 100}, {"duration_ms": 1000, "bandwidth_kbps": 2400, "latency_ms": 100}]"#,
        r#"{"start": {}, "intervals": [{"streams": [], "sum": {"start": 0, "end": 1, "seconds": 1, "bits_per_second": 1200000, "omitted": false}}, {"streams": [], "sum": {"start": 1.0, "end": 2, "seconds": 1, "bits_per_second": 2400000, "omitted": false}}], "end": {}}"#,
        "INFO; started\nDATA_HEADER; LOG_DATETIME; LOG_TIMESTAMP; PROC_TIME_US; DL_ACHIEVED_RATE_KBPS; UL_ACHIEVED_RATE_KBPS; CAKE_DL_RATE_KBPS\nDATA; 2023-01-01-10:00:00; 1672567200.25; 1672567200.1; 1200; 10; 20000\nSHAPER; x\nDATA; 2023-01-01-10:00:01; 1672567201.25; 1672567201.1; 2400; 10; 20000\n",
    ] {
        let times = plain(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(times.len(), 300, "{text}");
        for (n, want) in [(0, 10), (99, 1000), (299, 2000)] {
            assert!(times[n].abs_diff(want) <= 1, "{text}: {}", times[n]);
        }
    }
}

/// The shape of SIGCOMM21-5G's `...-iPerf.csv`: three columns are rates, the first time is that
/// of the whole run, and a second without data has no row.
#[test]
fn a_table_with_several_rates_is_read_by_column_and_unit() {
    let text = "parent_file,timestamp,time,_start,_end,_bytes,bits_per_second,rtt,Throughput,seq_no
run1.txt,2026-11-30 10:00:00 CST,10:00:01,0.0,1.0,,1200000.0,-1,1.2,0
run1.txt,2026-11-30 10:00:00 CST,10:00:02,1.0,2.0,,2400000.0,-1,2.4,1
run1.txt,2026-11-30 10:00:00 CST,10:00:04,3.0,4.0,,1200000.0,-1,1.2,3
";
    let made = |column: Option<&str>, unit: Option<&str>| {
        let form = RatesForm {
            column: column.map(str::to_owned),
            unit: unit.map(str::to_owned),
            every: None,
        };
        Trace::read_rates(text.as_bytes(), &form).map_err(|error| error.to_string())
    };
    for (column, unit) in [
        ("_start,Throughput", Some("Mbit")),
        ("_start,bits_per_second", None),
        ("4,9", Some("Mbit/s")),
    ] {
        let trace = made(Some(column), unit).unwrap_or_else(|e| panic!("{column}: {e}"));
        let times = trace.opportunities();
        // 1.2 Mbit/s for 1 s, 2.4 for 2 s, 1.2 for 2 s.
        assert_eq!(times.len(), 700, "{column}");
        for (n, want) in [(0, 10), (99, 1000), (499, 3000), (699, 5000)] {
            assert!(times[n].abs_diff(want) <= 1, "{column}: {}", times[n]);
        }
    }
    for (column, words) in [
        (
            None,
            "several columns are rates (_bytes, bits_per_second, Throughput): choose one (--column)",
        ),
        (
            Some("_start,Throughput"),
            "column 'Throughput' has no unit of a rate in its name: give it (--unit kbit)",
        ),
    ] {
        assert_eq!(made(column, None).unwrap_err(), words);
    }
}

#[test]
fn json_over_the_limit_is_refused_in_one_line() {
    const LIMIT: u64 = 128 << 20;
    let refused = |bytes: u64| {
        let text = b"[".as_slice().chain(std::io::repeat(0).take(bytes - 1));
        let made = Trace::read_rates(text, &RatesForm::default());
        made.unwrap_err().to_string()
    };
    assert_eq!(
        refused(LIMIT + 1),
        "its JSON is larger than 128 MiB: write it as lines of seconds,mbps"
    );
    // Not for its size.
    assert!(refused(LIMIT).contains("not complete JSON"));
}

#[test]
fn what_is_not_clear_is_refused_with_a_remedy() {
    for (text, words) in [
        (
            "seconds,bandwidth\n0,12\n",
            "column 'bandwidth' has no unit of a rate in its name: give it (--unit kbit)",
        ),
        (
            "seconds,delay\n0,12\n",
            "no column has the name of a rate (seconds, delay): choose one (--column)",
        ),
        (
            "seconds,a_kbps,b_kbps\n0,1,2\n",
            "several columns are rates (a_kbps, b_kbps): choose one (--column)",
        ),
        ("x,mbps\n0,12\n", "no column has the name of a time"),
        (
            "seconds,mbps\n0,1\n1,2,5\n",
            "line 3, column 3: '5' is not a cell of a column that the first line has",
        ),
        ("0,1\n1,2,5\n", "line 2, column 3: '5' is not a cell"),
        ("0,1,2\n", "found 3 columns without names"),
        (
            "seconds,mbps\n0,12,\n1,x\n",
            "line 3, column mbps: 'x' is not a rate: write a number from 0 on",
        ),
        (
            "seconds,mbps\n1,1\n0,1\n",
            "line 3, column seconds: '0' is not a time later than that of the row before: sort the rows",
        ),
        (
            "DATA; 2023; 1672567200.25; 1; 1200\n",
            "without its line DATA_HEADER",
        ),
        ("{\"intervals\": [{\"sum\"", "not complete JSON"),
        ("{\"error\": \"unable\"}", "neither iperf3's intervals nor"),
        (
            "[]",
            "no row with a time and a rate: write lines of seconds",
        ),
        ("", "no row with a time and a rate: write lines of seconds"),
        ("seconds,mbps\n", "no row with a time and a rate"),
        ("seconds,mbps\n0,0\n9,0\n", "less than one packet of 1500"),
        ("0,NaN\n", "line 1, column 2: 'NaN' is not a rate"),
        (
            "t_s,mbps\n0,5\n1,6 kbit\n",
            "line 3, column mbps: '6 kbit' is",
        ),
        (
            "t_s,mbps\n0,5\n1,\n",
            "line 3, column mbps: '' is not a rate",
        ),
    ] {
        let error = plain(text).unwrap_err();
        assert!(error.contains(words), "{text}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
    let unit = RatesForm {
        unit: Some("furlong".to_owned()),
        ..RatesForm::default()
    };
    assert!(read("0,1\n", &unit).unwrap_err().contains("use bit, kbit"));
    let column = RatesForm {
        column: Some("speed".to_owned()),
        ..RatesForm::default()
    };
    assert!(
        read("a,mbps\n0,1\n", &column)
            .unwrap_err()
            .contains("no column 'speed': there are a, mbps")
    );
}

#[test]
fn silence_at_both_ends_keeps_its_length() {
    let times = plain("0,0\n1,12\n1.002,0\n3,0\n").unwrap();
    // One as long as the row before it, 1.998 s, follows the last row.
    assert_eq!(times, [1001, 4998]);
    let rows: String = (0..100_000).map(|n| format!("{n},0\n")).collect();
    assert_eq!(plain(&format!("{rows}100000,12\n")).unwrap().len(), 1000);
    assert!(plain(&rows).is_err());
}

#[test]
fn units_are_distinguished() {
    let of = |text| unit_of(text).map(|u| ((u.mbit * 1e9).round() as u64, u.volume));
    for (text, want) in [
        ("Mbit/s", Some((1_000_000_000, false))),
        ("mbps", Some((1_000_000_000, false))),
        ("MB/s", Some((8_000_000_000, false))),
        ("MBps", Some((8_000_000_000, false))),
        ("KBPS", Some((1_000_000, false))),
        ("kbit", Some((1_000_000, false))),
        ("bytes/s", Some((8_000, false))),
        ("bytes", Some((8_000, true))),
        ("bits/sec", Some((1_000, false))),
        ("b", None),
        ("m", None),
        ("", None),
        ("bananas", None),
    ] {
        assert_eq!(of(text), want, "{text}");
    }
}
