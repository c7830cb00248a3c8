// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.app;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import org.junit.Test;

public class CurveTest {
    @Test
    public void throughputIsThatOfAnInterval() {
        Curve curve = new Curve(10);
        assertEquals(0, curve.recent(1000), 0);
        curve.add(0, 0, 0, 0, -1, 0);
        curve.add(250, 250_000, 21_500, 20_000, 30_000, 29_000);
        curve.add(500, 250_000, 0, 0, -1, 0);
        assertEquals(8, curve.throughput(1), 1e-9);
        assertEquals(0, curve.throughput(2), 0);
        assertEquals(4, curve.recent(500), 1e-9);
        assertEquals(0, curve.recent(250), 0);
        assertEquals(21.5, curve.rtt(1), 1e-9);
        assertEquals("time_s,acked_bytes,throughput_mbps,rtt_ms,min_rtt_ms,window_bytes,in_flight_bytes\n"
            + "0.000,0,0.000,,,,0\n0.250,250000,8.000,21.500,20.000,30000,29000\n0.500,250000,0.000,,,,0\n",
            curve.csv());
    }

    @Test
    public void aLongUploadIsKeptWhole() {
        for (int most : new int[] {100, 101}) {
            Curve curve = new Curve(most);
            for (int i = 0; i < 10_000; i++) {
                curve.add(250L * i, 1000L * i, 1000, 1000, -1, 0);
                assertTrue(curve.count() <= most);
            }
            assertTrue("" + curve.count(), curve.count() > most / 3);
            assertEquals(0, curve.millis(0));
            // Evenly, to the end.
            long step = curve.millis(1);
            for (int i = 0; i < curve.count(); i++) {
                assertEquals(step * i, curve.millis(i));
            }
            assertTrue(curve.millis(curve.count() - 1) + step >= 250L * 9_999);
            assertEquals(0.032, curve.throughput(1), 1e-9);
        }
    }
}
