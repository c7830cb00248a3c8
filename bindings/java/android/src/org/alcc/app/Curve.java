// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.app;

import java.util.Locale;

/**
 * Samples of an upload, oldest first, in bounded memory. When it is full, every second one goes. So the whole of a long
 * upload stays to be seen. Several threads may use it.
 */
final class Curve {
    private static final int FIELDS = 6;
    private static final int TIME = 0;
    private static final int BYTES = 1;
    private static final int RTT = 2;
    private static final int SMALLEST = 3;
    private static final int WINDOW = 4;
    private static final int IN_FLIGHT = 5;

    private final long[] values;
    private final int most;
    private int count;
    /** Every {@code stride}th offered point is kept. */
    private int stride = 1;
    private int offered;

    Curve(int most) {
        this.most = most;
        values = new long[most * FIELDS];
    }

    /**
     * @param millis since the beginning
     * @param bytes acknowledged until then
     * @param rtt newest round trip, microseconds; 0: not known. So is the smallest
     * @param window bytes that the algorithm allows; negative: no window
     */
    synchronized void add(long millis, long bytes, long rtt, long smallest, long window, long inFlight) {
        int number = offered++;
        if (count == most && number % stride == 0) {
            for (int i = 0; 2 * i < most; i++) {
                System.arraycopy(values, 2 * i * FIELDS, values, i * FIELDS, FIELDS);
            }
            count = (most + 1) / 2;
            stride *= 2;
        }
        if (number % stride != 0) {
            return;
        }
        long[] row = {millis, bytes, rtt, smallest, window, inFlight};
        System.arraycopy(row, 0, values, count * FIELDS, FIELDS);
        count++;
    }

    synchronized int count() {
        return count;
    }

    private long value(int i, int field) {
        return values[i * FIELDS + field];
    }

    synchronized long millis(int i) {
        return value(i, TIME);
    }

    /** Newest round trip, ms; 0: not known. */
    synchronized double rtt(int i) {
        return value(i, RTT) / 1e3;
    }

    /** Rate since the sample before, Mbit/s. */
    synchronized double throughput(int i) {
        if (i == 0) {
            return 0;
        }
        long millis = value(i, TIME) - value(i - 1, TIME);
        return millis <= 0 ? 0 : (value(i, BYTES) - value(i - 1, BYTES)) * 8 / 1e3 / millis;
    }

    /** Rate of the last {@code millis}, Mbit/s. */
    synchronized double recent(long millis) {
        int from = count - 1;
        while (from > 0 && value(count - 1, TIME) - value(from, TIME) < millis) {
            from--;
        }
        if (from < 0 || value(count - 1, TIME) == value(from, TIME)) {
            return 0;
        }
        return (value(count - 1, BYTES) - value(from, BYTES)) * 8 / 1e3 / (value(count - 1, TIME) - value(from, TIME));
    }

    /** Every sample; what is not known is empty. */
    synchronized String csv() {
        StringBuilder csv = new StringBuilder("time_s,acked_bytes,throughput_mbps,rtt_ms,min_rtt_ms,window_bytes,"
            + "in_flight_bytes\n");
        for (int i = 0; i < count; i++) {
            csv.append(String.format(Locale.ROOT, "%.3f,%d,%.3f,", value(i, TIME) / 1e3, value(i, BYTES),
                throughput(i)));
            csv.append(known(value(i, RTT))).append(',').append(known(value(i, SMALLEST))).append(',');
            if (value(i, WINDOW) >= 0) {
                csv.append(value(i, WINDOW));
            }
            csv.append(',').append(value(i, IN_FLIGHT)).append('\n');
        }
        return csv.toString();
    }

    private static String known(long micros) {
        return micros == 0 ? "" : String.format(Locale.ROOT, "%.3f", micros / 1e3);
    }
}
