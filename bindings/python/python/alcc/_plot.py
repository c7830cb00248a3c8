# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Plots of results."""
from alcc._frames import needed


def label(row):
    """The flow in legends; a published algorithm in this project's own form says so, as in the program's tables."""
    flow = row.get("flow") or row["scheme"]
    if row.get("profile") == "tuned" and "profile=" not in flow:
        flow += " (tuned)"
    return row.get("name") or flow


def plot(result):
    """A figure: throughput and queueing delay over time, or a point per flow."""
    figures = needed("matplotlib.figure", "plot", "plot")
    rows = result.rows
    series = result.series
    if series is None:
        figure = figures.Figure(figsize=(7, 5), layout="constrained")
        axes = figure.subplots()
        for row in rows:
            # Nothing was delivered: it has no delay, but its name in the legend.
            delay = row["delay_mean_ms"]
            delay = float("nan") if delay is None else delay
            axes.plot(delay, row["throughput_mbps"], "o", label=label(row))
        axes.set_xlabel("mean delay, ms")
        axes.set_ylabel("throughput, Mbit/s")
        axes.legend()
        return figure
    figure = figures.Figure(figsize=(9, 5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    data = series.to_pydict()
    for number, row in enumerate(rows):
        own = [i for i, flow in enumerate(data["flow_number"]) if flow == number]
        times = [data["time_s"][i] for i in own]
        above.plot(times, [data["throughput_mbps"][i] for i in own], label=label(row))
        # A gap is where nothing was delivered.
        delays = [data["queue_delay_ms"][i] for i in own]
        below.plot(times, [float("nan") if d is None else d for d in delays])
    first = [i for i, flow in enumerate(data["flow_number"]) if flow == 0]
    times = [data["time_s"][i] for i in first]
    capacity = [data["capacity_mbps"][i] for i in first]
    above.plot(times, capacity, color="0.8", zorder=0, label="capacity")
    above.set_ylabel("throughput, Mbit/s")
    above.set_ylim(bottom=0)
    above.legend()
    below.set_ylabel("queueing delay, ms")
    below.set_xlabel("time, s")
    below.set_ylim(bottom=0)
    return figure
