// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import org.alcc.cc.AckBatch;
import org.alcc.cc.Controller;
import org.junit.Test;

/** The algorithm's events for sent packets. */
public class FlowTest {
    private static final int MSS = 1448;
    private static final long MS = 1_000_000;

    /** Counts its events. */
    private static final class Counting extends Controller {
        int records;
        long longest;
        long bytes;

        @Override
        public void start(long now, int mss, long seed) { }

        @Override
        public long sent(long now, long length, long before) {
            records++;
            longest = Math.max(longest, length);
            bytes += length;
            return 0;
        }

        @Override
        public void acked(long now, AckBatch batch) { }

        @Override
        public long window() {
            return 1 << 24;
        }
    }

    private final Counting heard = new Counting();
    private final Flow flow = new Flow(heard, 0, MSS, 1);

    private void write(int times, int bytes) {
        heard.records = 0;
        heard.longest = 0;
        for (int i = 0; i < times; i++) {
            flow.wrote(i * MS, bytes);
        }
    }

    @Test
    public void withLittleUnderWayEachSegmentIsTold() {
        write(1, 8 * MSS);
        assertEquals(8, heard.records);
        assertEquals(MSS, heard.longest);
    }

    /** Many small writes cost the algorithm no more than few large ones. */
    @Test
    public void aRecordIsASixteenthOfWhatIsUnderWay() {
        write(16, 11 * MSS);
        long flight = flow.inFlight();
        write(16, 11 * MSS);
        assertTrue(heard.records + " records", heard.records <= 32);
        assertTrue(heard.longest + " bytes", heard.longest <= 2 * flight / 16);
        assertEquals(flow.inFlight(), heard.bytes);
        assertEquals(flow.written(), heard.bytes);
    }
}
