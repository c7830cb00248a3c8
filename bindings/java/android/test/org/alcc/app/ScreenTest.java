// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.app;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNotSame;
import static org.junit.Assert.assertTrue;

import android.app.Activity;
import android.app.Notification;
import android.content.Context;
import android.content.Intent;
import android.graphics.Bitmap;
import android.graphics.Canvas;
import android.net.ConnectivityManager;
import android.net.NetworkInfo;
import android.net.Uri;
import android.os.Looper;
import android.view.View;
import android.view.ViewGroup;
import android.widget.Button;
import android.widget.EditText;
import android.widget.Spinner;
import android.widget.TextView;
import java.io.File;
import java.io.InputStream;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.concurrent.TimeUnit;
import org.alcc.inband.Alcc;
import org.alcc.inband.Relay;
import org.alcc.record.Plan;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;
import org.junit.runner.RunWith;
import org.robolectric.Robolectric;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.Shadows;
import org.robolectric.android.controller.ActivityController;
import org.robolectric.android.controller.ServiceController;
import org.robolectric.annotation.Config;
import org.robolectric.annotation.GraphicsMode;
import org.robolectric.annotation.SQLiteMode;
import org.robolectric.shadows.ShadowNetworkInfo;

/** The screen and the service, with the resources of the APK and real sockets. */
@RunWith(RobolectricTestRunner.class)
@Config(sdk = 23)
@GraphicsMode(GraphicsMode.Mode.LEGACY)
@SQLiteMode(SQLiteMode.Mode.LEGACY)
public class ScreenTest {
    private static final String HERE = "127.0.0.1";

    @Rule public final TemporaryFolder folder = new TemporaryFolder();

    private ActivityController<MainActivity> screen = Robolectric.buildActivity(MainActivity.class).setup();

    private static AlccApp app() {
        return (AlccApp) RuntimeEnvironment.getApplication();
    }

    private <T extends View> T view(int id) {
        T view = screen.get().findViewById(id);
        assertNotNull(view);
        return view;
    }

    private String words(int id) {
        return ((TextView) view(id)).getText().toString();
    }

    /** A moment passes, on the phone and here. */
    private static void moment() throws InterruptedException {
        Thread.sleep(20);
        Shadows.shadowOf(Looper.getMainLooper()).idleFor(300, TimeUnit.MILLISECONDS);
    }

    private void until(int id, String text) throws InterruptedException {
        for (int i = 0; i < 2000 && !words(id).contains(text); i++) {
            moment();
        }
        assertTrue(words(id), words(id).contains(text));
    }

    /** As the user picks it. */
    private void choose(byte[] content) throws Exception {
        Uri uri = ResultsProvider.put(app(), "video.bin", content);
        view(R.id.choose).performClick();
        Intent asked = Shadows.shadowOf(screen.get()).peekNextStartedActivityForResult().intent;
        assertEquals(Intent.ACTION_OPEN_DOCUMENT, asked.getAction());
        Shadows.shadowOf(screen.get()).receiveResult(asked, Activity.RESULT_OK, new Intent().setData(uri));
        assertTrue(words(R.id.file), words(R.id.file).contains("video.bin"));
    }

    private ServiceController<UploadService> start(int port, byte[] content) throws Exception {
        choose(content);
        ((EditText) view(R.id.server)).setText(HERE + ":" + port);
        ((Spinner) view(R.id.algorithm)).setSelection(3);
        view(R.id.start).performClick();
        return service();
    }

    /** Android would do this. */
    private static ServiceController<UploadService> service() {
        Intent intent = Shadows.shadowOf(app()).getNextStartedService();
        assertEquals(UploadService.class.getName(), intent.getComponent().getClassName());
        return Robolectric.buildService(UploadService.class, intent).create().startCommand(0, 1);
    }

    @Test
    public void whatIsMissingIsSaid() throws Exception {
        assertEquals("Ready", words(R.id.status));
        view(R.id.start).performClick();
        assertEquals("No file is chosen.", words(R.id.status));
        choose(new byte[10]);
        view(R.id.start).performClick();
        assertTrue(words(R.id.status), words(R.id.status).contains("server"));
        // It stands until the user does something.
        moment();
        moment();
        assertTrue(words(R.id.status), words(R.id.status).contains("server"));
        assertFalse(view(R.id.pause).isEnabled());
        assertFalse(view(R.id.share).isEnabled());
    }

    @Test
    public void anUploadSurvivesTurningBackgroundPauseAndAnotherNetwork() throws Exception {
        byte[] content = UploadTest.content(12_000_000);
        File file = new File(folder.getRoot(), "received");
        int port = Relay.freePort();
        try (Alcc recv = UploadTest.receiver(port, file); Relay relay = Relay.slow(port)) {
            ServiceController<UploadService> service = start(relay.port(), content);
            Notification shown = Shadows.shadowOf(service.get()).getLastForegroundNotification();
            assertNotNull(shown);
            until(R.id.status, "Sending");
            Upload upload = app().upload();
            UploadTest.awaitBytes(upload, 1_000_000);

            // Turned: another screen, the same upload.
            MainActivity before = screen.get();
            screen.recreate();
            assertNotSame(before, screen.get());
            until(R.id.status, "Sending");
            assertEquals(upload, app().upload());

            // In the background nothing of the screen runs, and the upload does.
            screen.pause().stop();
            UploadTest.awaitBytes(upload, upload.acknowledged() + 500_000);
            screen.start().resume();

            // Another network.
            ConnectivityManager networks = (ConnectivityManager) app().getSystemService(Context.CONNECTIVITY_SERVICE);
            int connections = upload.connections();
            service.get().networkMayHaveChanged();
            assertEquals(connections, upload.connections());
            Shadows.shadowOf(networks).setActiveNetworkInfo(ShadowNetworkInfo.newInstance(
                NetworkInfo.DetailedState.CONNECTED, ConnectivityManager.TYPE_WIFI, 0, true,
                NetworkInfo.State.CONNECTED));
            service.get().networkMayHaveChanged();
            UploadTest.awaitBytes(upload, upload.acknowledged() + 500_000);
            assertTrue(upload.connections() > connections);

            // A pause ends the service; going on starts it again.
            view(R.id.pause).performClick();
            assertEquals("Resume", ((Button) view(R.id.pause)).getText().toString());
            until(R.id.status, "Paused");
            for (int i = 0; i < 10 && !Shadows.shadowOf(service.get()).isStoppedBySelf(); i++) {
                moment();
            }
            assertTrue(Shadows.shadowOf(service.get()).isStoppedBySelf());
            service.destroy();
            view(R.id.pause).performClick();
            service = service();
            until(R.id.status, "Done");
            assertEquals(recv.all(), 0, recv.end());
            moment();
            assertTrue(words(R.id.bytes), words(R.id.bytes).contains("100 %"));
            for (int i = 0; i < 10 && !Shadows.shadowOf(service.get()).isStoppedBySelf(); i++) {
                moment();
            }
            assertTrue(Shadows.shadowOf(service.get()).isStoppedBySelf());
            service.destroy();
        }
        assertArrayEquals(content, Files.readAllBytes(file.toPath()));
        shared();
        drawn();
    }

    private void shared() throws Exception {
        view(R.id.share).performClick();
        Intent chooser = Shadows.shadowOf(screen.get()).getNextStartedActivity();
        while (!Intent.ACTION_CHOOSER.equals(chooser.getAction())) {
            chooser = Shadows.shadowOf(screen.get()).getNextStartedActivity();
        }
        Intent send = chooser.getParcelableExtra(Intent.EXTRA_INTENT);
        assertEquals("text/csv", send.getType());
        assertTrue((send.getFlags() & Intent.FLAG_GRANT_READ_URI_PERMISSION) != 0);
        Uri uri = send.getParcelableExtra(Intent.EXTRA_STREAM);
        assertEquals(app().upload().curve().csv(), shared(uri));
    }

    /** As another app reads it. */
    private static String shared(Uri uri) throws Exception {
        byte[] csv = new byte[1 << 20];
        int n = 0;
        try (InputStream in = app().getContentResolver().openInputStream(uri)) {
            for (int more = in.read(csv); more > 0; more = in.read(csv, n, csv.length - n)) {
                n += more;
            }
        }
        return new String(csv, 0, n, "UTF-8");
    }

    private void drawn() {
        CurveView curves = view(R.id.curves);
        curves.layout(0, 0, 400, 300);
        Canvas canvas = new Canvas(Bitmap.createBitmap(400, 300, Bitmap.Config.ARGB_8888));
        curves.draw(canvas);
        assertEquals(2, Shadows.shadowOf(canvas).getPathPaintHistoryCount());
        assertTrue(curves.getContentDescription().toString().contains("throughput"));
    }

    @Test
    public void bothDirectionsAreRecordedAndShared() throws Exception {
        view(R.id.record).performClick();
        assertTrue(words(R.id.status), words(R.id.status).contains("server"));
        assertFalse(view(R.id.share_traces).isEnabled());
        app().plan = new Plan(Plan.Mode.CONSTANT, 1472, 28, 1_500_000_000L, 200_000_000, 4_000_000, 8_000_000, 0);
        try (Alcc listener = new Alcc("trace", "record", "--listen", HERE + ":0", "--count", "1", "--out",
            folder.getRoot().toString(), "--json")) {
            String line = listener.line("listening on");
            ((EditText) view(R.id.server)).setText(line.substring(line.indexOf(HERE)).split(";")[0]);
            view(R.id.record).performClick();
            ServiceController<UploadService> service = service();
            assertNotNull(Shadows.shadowOf(service.get()).getLastForegroundNotification());
            until(R.id.recorded, "Recording");
            // One at a time, since they would measure each other.
            assertFalse(view(R.id.start).isEnabled());
            assertEquals("Stop", ((Button) view(R.id.record)).getText().toString());
            screen.recreate();
            until(R.id.recorded, "Recorded: down");
            assertEquals(listener.all(), 0, listener.end());
            for (int i = 0; i < 10 && !Shadows.shadowOf(service.get()).isStoppedBySelf(); i++) {
                moment();
            }
            assertTrue(Shadows.shadowOf(service.get()).isStoppedBySelf());
            service.destroy();
        }
        moment();
        assertTrue(view(R.id.start).isEnabled());
        view(R.id.share_traces).performClick();
        Intent chooser = Shadows.shadowOf(screen.get()).getNextStartedActivity();
        Intent send = chooser.getParcelableExtra(Intent.EXTRA_INTENT);
        assertEquals(Intent.ACTION_SEND_MULTIPLE, send.getAction());
        ArrayList<Uri> traces = send.getParcelableArrayListExtra(Intent.EXTRA_STREAM);
        assertEquals(2, traces.size());
        assertEquals(2, send.getClipData().getItemCount());
        String up = shared(traces.get(1));
        // The listener wrote the same.
        File[] there = folder.getRoot().listFiles();
        assertEquals(1, there.length);
        assertEquals(new String(Files.readAllBytes(new File(there[0], "up.trace").toPath()), "UTF-8"), up);
        for (Uri each : traces) {
            File file = folder.newFile();
            Files.write(file.toPath(), shared(each).getBytes("UTF-8"));
            try (Alcc stats = new Alcc("trace", "stats", file.toString())) {
                assertEquals(stats.all(), 0, stats.end());
            }
        }
    }

    @Test
    public void aRecordingThatNobodyAnswersSaysSo() throws Exception {
        ((EditText) view(R.id.server)).setText(HERE + ":" + Relay.freePort());
        view(R.id.record).performClick();
        ServiceController<UploadService> service = service();
        until(R.id.recorded, "connection refused");
        assertFalse(view(R.id.share_traces).isEnabled());
        assertEquals("Record", ((Button) view(R.id.record)).getText().toString());
        service.destroy();
    }

    /** Everything that can be touched has a description for TalkBack. */
    @Test
    public void everythingHasWords() {
        silent((ViewGroup) screen.get().getWindow().getDecorView());
    }

    private static void silent(ViewGroup group) {
        for (int i = 0; i < group.getChildCount(); i++) {
            View view = group.getChildAt(i);
            if (view instanceof ViewGroup && !(view instanceof Spinner)) {
                silent((ViewGroup) view);
            } else if (view.isClickable() || view.getId() == R.id.progress || view.getId() == R.id.curves) {
                boolean text = view instanceof TextView && ((TextView) view).getText().length() > 0
                    || view instanceof EditText && ((EditText) view).getHint() != null;
                assertTrue("" + view, text || view.getContentDescription() != null);
            }
        }
    }
}
