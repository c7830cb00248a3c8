// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.app;

import android.app.Application;
import android.content.Intent;
import android.content.SharedPreferences;
import android.net.Uri;
import android.os.Build;
import android.util.Base64;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.security.SecureRandom;
import org.alcc.record.Plan;
import org.alcc.transfer.Resuming;

/**
 * Holds the upload and the recording, because the screen may be turned, closed and opened, and the service may come and
 * go. The data that an upload needs to resume after the end of the process are stored.
 */
public final class AlccApp extends Application {
    private static final String SESSION = "session";

    /** Plan of the recording. */
    Plan plan = Plan.saturate(60_000, 10_000);
    private Upload upload;
    private ChannelRecording recording;

    /** The upload on the screen; null: none was begun. */
    Upload upload() {
        return upload;
    }

    /** The recording on the screen; null: none was begun. */
    ChannelRecording recording() {
        return recording;
    }

    /** An upload and a recording would measure each other: there is one of them at a time. */
    boolean isBusy() {
        return upload != null && upload.isBusy() || recording != null && recording.isBusy();
    }

    /** Records in the foreground. */
    void record(Job job) {
        recording = new ChannelRecording(job, plan, Build.MODEL);
        foreground();
    }

    /** The user's last input. */
    SharedPreferences said() {
        return getSharedPreferences("said", MODE_PRIVATE);
    }

    /** Begins, in the foreground: Android ends what is in the background. */
    void begin(Job job, final Uri file, long size) {
        if (upload != null) {
            upload.pause();
        }
        // The same file to the same server resumes the upload of an ended process.
        String what = job.server() + " " + size + " " + file;
        String[] kept = said().getString(SESSION, "").split(" ", 2);
        boolean known = kept.length == 2 && kept[1].equals(what);
        byte[] session = new byte[16];
        if (known) {
            session = Base64.decode(kept[0], Base64.NO_WRAP);
        } else {
            new SecureRandom().nextBytes(session);
        }
        said().edit().putString(SESSION, Base64.encodeToString(session, Base64.NO_WRAP) + " " + what).apply();
        upload = new Upload(job, new Resuming.Source() {
            @Override public InputStream open() throws IOException {
                InputStream content = getContentResolver().openInputStream(file);
                if (content == null) {
                    throw new FileNotFoundException("nothing gives the content of " + file);
                }
                return content;
            }
        }, size, session, known);
        upload.start();
        foreground();
    }

    /** Goes on after a pause or a failure. */
    void resume() {
        upload.start();
        foreground();
    }

    /** The receiver has everything: the session is over. */
    void forget() {
        said().edit().remove(SESSION).apply();
    }

    private void foreground() {
        Intent service = new Intent(this, UploadService.class);
        if (Build.VERSION.SDK_INT >= 26) {
            startForegroundService(service);
        } else {
            startService(service);
        }
    }
}
