// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.app;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import org.alcc.record.Plan;
import org.alcc.record.Recorded;
import org.alcc.record.Recording;
import org.alcc.transfer.Resuming;

/** The work of the app as a program, which runs behind the emulated link, with a pause in the middle. */
public final class OverALink {
    private OverALink() { }

    /** SERVER ALGORITHM FILE; says the samples. Or SERVER record: says the traces. */
    public static void main(String[] arguments) throws Exception {
        if (arguments[1].equals("record")) {
            record(Job.of(arguments[0], "budget"));
            return;
        }
        final File file = new File(arguments[2]);
        Upload upload = new Upload(Job.of(arguments[0], arguments[1]), new Resuming.Source() {
            @Override public InputStream open() throws IOException {
                return new FileInputStream(file);
            }
        }, file.length(), "sixteen bytes...".getBytes("UTF-8"), false);
        upload.start();
        UploadTest.awaitBytes(upload, file.length() / 3);
        upload.pause();
        Thread.sleep(500);
        upload.start();
        UploadTest.await(upload, Upload.State.DONE);
        Thread.sleep(600);
        System.out.print(upload.curve().csv());
    }

    private static void record(Job job) throws Exception {
        // A saturator must have seen the link's fastest second before it counts, or the queue runs empty at that jump.
        ChannelRecording recording = new ChannelRecording(job, Plan.saturate(6000, 10_000), "phone");
        while (recording.isBusy()) {
            Thread.sleep(50);
        }
        Recording got = recording.result();
        if (got == null || !got.isComplete()) {
            System.out.println("not whole: " + recording.problem() + (got == null ? "" : got.end));
            System.exit(1);
        }
        System.out.println("held_up_ms " + Math.max(got.down.late[2], got.up.late[2]) / 1_000_000);
        for (Recorded each : new Recorded[] {got.down, got.up}) {
            for (String line : new String(ChannelRecording.trace(got, each), "US-ASCII").split("\n")) {
                System.out.println((each == got.down ? "down " : "up ") + line);
            }
        }
    }
}
