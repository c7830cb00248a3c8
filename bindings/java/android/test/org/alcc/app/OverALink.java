// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.app;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import org.alcc.transfer.Resuming;

/** What the app does, as a program of its own: it runs behind the emulated link. With a pause in the middle. */
public final class OverALink {
    private OverALink() { }

    /** SERVER ALGORITHM FILE; says the samples. */
    public static void main(String[] arguments) throws Exception {
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
}
