// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.app;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.io.File;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import org.alcc.inband.Alcc;
import org.junit.Assume;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;
import org.junit.rules.Timeout;

/** The upload and the recorder over an emulated link, with the program at its other end. */
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

    /** Opportunities of a link with one rate for each second. */
    private File link(String name, int... perSecond) throws Exception {
        File file = folder.newFile(name);
        StringBuilder text = new StringBuilder();
        for (int second = 0; second < perSecond.length; second++) {
            for (int i = 1; i <= perSecond[second]; i++) {
                text.append(second * 1000 + i * 1000 / perSecond[second]).append('\n');
            }
        }
        Files.write(file.toPath(), text.toString().getBytes("US-ASCII"));
        return file;
    }

    /** The number of sorted times from a time to a second later. */
    private static int inSecond(int[] times, int from) {
        int n = 0;
        for (int time : times) {
            n += time >= from && time < from + 1000 ? 1 : 0;
        }
        return n;
    }

    /** The largest share by which a second differs, where the recording fits the link best. */
    private static double worst(File link, int[] recorded) throws Exception {
        String[] lines = new String(Files.readAllBytes(link.toPath()), "US-ASCII").split("\n");
        int period = Integer.parseInt(lines[lines.length - 1]);
        int[] times = new int[3 * lines.length];
        for (int i = 0; i < times.length; i++) {
            times[i] = Integer.parseInt(lines[i % lines.length]) + i / lines.length * period;
        }
        double best = Double.MAX_VALUE;
        for (int shift = 0; shift < period; shift += 10) {
            double worst = 0;
            for (int second = 0; second < 6; second++) {
                double want = inSecond(times, shift + second * 1000);
                worst = Math.max(worst, Math.abs(inSecond(recorded, second * 1000) / want - 1));
            }
            best = Math.min(best, worst);
        }
        return best;
    }

    private static int[] recorded(Alcc emulate, String direction) {
        List<Integer> times = new ArrayList<Integer>();
        for (String line : emulate.lines()) {
            if (line.startsWith(direction + " ")) {
                times.add(Integer.valueOf(line.substring(direction.length() + 1)));
            }
        }
        int[] all = new int[times.size()];
        for (int i = 0; i < all.length; i++) {
            all[i] = times.get(i);
        }
        return all;
    }

    @Test
    public void aRecordingGivesTheLinkBack() throws Exception {
        File down = link("down", 800, 400, 600, 900, 300, 500, 700);
        File up = link("up", 200, 400, 300, 500, 250);
        String listener = "exec '" + System.getProperty("alcc")
            + "' trace record --listen :9701 --insecure --count 1 --out '" + folder.getRoot() + "'";
        String java = new File(System.getProperty("java.home"), "bin/java").getPath();
        String app = "exec '" + java + "' -XX:TieredStopAtLevel=1 -cp '" + System.getProperty("java.class.path")
            + "' org.alcc.app.OverALink \"$ALCC_OUTSIDE:9701\" record";
        try (Alcc emulate = new Alcc("emulate", "--quiet", "--delay", "20ms", "--down", down.getPath(), "--up",
                up.getPath(), "--outside", listener, "--", "sh", "-c", app)) {
            assertEquals(said(emulate), 0, emulate.end());
            String held = emulate.line("held_up_ms");
            double[] worst = {worst(down, recorded(emulate, "down")), worst(up, recorded(emulate, "up"))};
            System.out.println("a second differs by at most " + worst[0] + " down, " + worst[1] + " up; " + held);
            // A queue that ran empty since a sender got no processor is no fault of the recorder, which says so.
            Assume.assumeTrue(held, Integer.parseInt(held.substring(held.indexOf(' ') + 1)) < 300);
            assertTrue("" + worst[0], worst[0] <= 0.02);
            assertTrue("" + worst[1], worst[1] <= 0.02);
        }
    }

    /** Skipped on systems without namespaces. */
    private static String said(Alcc emulate) throws Exception {
        boolean can = emulate.end() != 2
            || !(emulate.all().contains("namespace") || emulate.all().contains("device"));
        if (!can) {
            System.out.println("skipped: needs namespaces: " + emulate.all());
        }
        Assume.assumeTrue("needs namespaces", can);
        return emulate.all();
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
            assertEquals(said(emulate), 0, emulate.end());
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
