// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.app;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.io.File;
import java.nio.file.Files;
import org.alcc.inband.Alcc;
import org.junit.Assume;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;
import org.junit.rules.Timeout;

/** The upload over an emulated link, to the program at its other end. */
public class OverALinkTest {
    @Rule public final TemporaryFolder folder = new TemporaryFolder();
    @Rule public final Timeout timeout = Timeout.seconds(120);

    @Test
    public void budget() throws Exception {
        over("budget");
    }

    @Test
    public void mdi() throws Exception {
        over("mdi");
    }

    private void over(String algorithm) throws Exception {
        byte[] content = UploadTest.content(4_000_000);
        File file = folder.newFile("content");
        Files.write(file.toPath(), content);
        File received = new File(folder.getRoot(), "received");
        String alcc = System.getProperty("alcc");
        String receiver = "exec '" + alcc + "' recv --transport in-band --port 9700 --bind 0.0.0.0 --once --resume --out '"
            + received + "'";
        String java = new File(System.getProperty("java.home"), "bin/java").getPath();
        String app = "exec '" + java + "' -XX:TieredStopAtLevel=1 -cp '" + System.getProperty("java.class.path")
            + "' org.alcc.app.OverALink \"$ALCC_OUTSIDE:9700\" " + algorithm + " '" + file + "'";
        try (Alcc emulate = new Alcc("emulate", "--quiet", "--delay", "20ms", "--up", "20mbit", "--outside", receiver,
                "--", "sh", "-c", app)) {
            int status = emulate.end();
            boolean can = status != 2 || !(emulate.all().contains("namespace") || emulate.all().contains("device"));
            if (!can) {
                System.out.println("skipped: needs namespaces: " + emulate.all());
            }
            Assume.assumeTrue("needs namespaces", can);
            assertEquals(emulate.all(), 0, status);
            assertArrayEquals(content, Files.readAllBytes(received.toPath()));
            long smallest = Long.MAX_VALUE;
            String last = "";
            for (String line : emulate.lines()) {
                String[] fields = line.split(",", -1);
                if (fields.length == 7 && !fields[0].equals("time_s")) {
                    last = line;
                    smallest = fields[4].isEmpty() ? smallest : Math.min(smallest, (long) Double.parseDouble(fields[4]));
                }
            }
            // The link's own delay is in each sample, and not much more in the smallest.
            assertTrue(emulate.all(), smallest >= 40 && smallest < 80);
            assertTrue(last, last.contains(",4000000,"));
            // 4 MB at 20 Mbit/s, and the pause.
            assertTrue(last, Double.parseDouble(last.split(",")[0]) >= 1.6 + 0.5);
        }
    }
}
