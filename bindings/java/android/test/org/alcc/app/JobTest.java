// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.app;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;
import static org.junit.Assert.fail;

import org.junit.Test;

public class JobTest {
    @Test
    public void serversAreRead() {
        assertEquals("host:9700", Job.of(" host ", "budget").server());
        assertEquals("10.0.0.1:80", Job.of("10.0.0.1:80", "copa").server());
        assertEquals("[2001:db8::1]:9700", Job.of("2001:db8::1", "mdi").server());
        assertEquals("[2001:db8::1]:5", Job.of("[2001:db8::1]:5", "fixed:7").server());
        assertEquals("[::1]:9700", Job.of("[::1]", "budget:20").server());
    }

    @Test
    public void whatIsWrongIsSaid() {
        wrong("", "budget", "server");
        wrong("a b", "budget", "server");
        wrong("[::1", "budget", "']'");
        wrong("[::1]5", "budget", "port");
        wrong("host:0", "budget", "port");
        wrong("host:65536", "budget", "65535");
        wrong("host:x", "budget", "'x'");
        wrong("host", "sprout", "'sprout'");
        wrong("host", "copa:1", "'copa:1'");
        wrong("host", "fixed:0", "packets");
        wrong("host", "budget:", "'budget:'");
    }

    private static void wrong(String server, String algorithm, String words) {
        try {
            Job.of(server, algorithm);
        } catch (IllegalArgumentException e) {
            assertTrue(e.getMessage(), e.getMessage().contains(words));
            return;
        }
        fail(server + " and " + algorithm + " were taken");
    }

    @Test
    public void eachOneThatTheScreenListsCanBeHad() {
        for (String algorithm : Job.ALGORITHMS) {
            assertTrue(Job.of("host", algorithm).controller() != Job.of("host", algorithm).controller());
        }
    }
}
