// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.app;

import android.app.Activity;
import android.content.ActivityNotFoundException;
import android.content.ClipData;
import android.content.Intent;
import android.content.SharedPreferences;
import android.database.Cursor;
import android.net.Uri;
import android.os.Bundle;
import android.os.Handler;
import android.os.Looper;
import android.provider.OpenableColumns;
import android.text.format.Formatter;
import android.view.View;
import android.widget.ArrayAdapter;
import android.widget.Button;
import android.widget.EditText;
import android.widget.ProgressBar;
import android.widget.Spinner;
import android.widget.TextView;
import java.io.IOException;
import java.nio.charset.Charset;
import java.util.ArrayList;
import java.util.Arrays;
import org.alcc.record.Recorder;
import org.alcc.record.Recording;

/** The screen: what is to be sent, and how it goes. It keeps nothing that turning the phone could lose. */
public final class MainActivity extends Activity {
    private static final int FILE = 1;
    private static final long LOOK_MS = 250;
    private static final String SERVER = "server";
    private static final String ALGORITHM = "algorithm";
    private static final String URI = "file";

    private final Handler handler = new Handler(Looper.getMainLooper());
    private final Runnable look = new Runnable() {
        @Override public void run() {
            show();
            handler.postDelayed(this, LOOK_MS);
        }
    };
    private AlccApp app;
    private Uri file;
    private String name = "";
    private long size = -1;
    /** The error of the last request; it is shown until the next one. */
    private String told = "";

    @Override
    protected void onCreate(Bundle saved) {
        super.onCreate(saved);
        setContentView(R.layout.main);
        app = (AlccApp) getApplication();
        SharedPreferences said = app.said();
        EditText server = (EditText) findViewById(R.id.server);
        server.setText(said.getString(SERVER, ""));
        Spinner algorithm = (Spinner) findViewById(R.id.algorithm);
        algorithm.setAdapter(new ArrayAdapter<String>(this, android.R.layout.simple_spinner_dropdown_item,
            Job.ALGORITHMS));
        algorithm.setSelection(Math.max(Arrays.asList(Job.ALGORITHMS).indexOf(said.getString(ALGORITHM, "")), 0));
        if (!said.getString(URI, "").isEmpty()) {
            look(Uri.parse(said.getString(URI, "")));
        }
        findViewById(R.id.choose).setOnClickListener(new View.OnClickListener() {
            @Override public void onClick(View view) {
                choose();
            }
        });
        findViewById(R.id.start).setOnClickListener(new View.OnClickListener() {
            @Override public void onClick(View view) {
                start();
            }
        });
        findViewById(R.id.pause).setOnClickListener(new View.OnClickListener() {
            @Override public void onClick(View view) {
                pauseOrResume();
            }
        });
        findViewById(R.id.share).setOnClickListener(new View.OnClickListener() {
            @Override public void onClick(View view) {
                share();
            }
        });
        findViewById(R.id.record).setOnClickListener(new View.OnClickListener() {
            @Override public void onClick(View view) {
                record();
            }
        });
        findViewById(R.id.share_traces).setOnClickListener(new View.OnClickListener() {
            @Override public void onClick(View view) {
                shareTraces();
            }
        });
    }

    @Override
    protected void onResume() {
        super.onResume();
        handler.post(look);
    }

    @Override
    protected void onPause() {
        handler.removeCallbacks(look);
        super.onPause();
    }

    private void choose() {
        Intent intent = new Intent(Intent.ACTION_OPEN_DOCUMENT).addCategory(Intent.CATEGORY_OPENABLE).setType("*/*");
        try {
            startActivityForResult(intent, FILE);
        } catch (ActivityNotFoundException e) {
            say(getString(R.string.unreadable, e.getMessage()));
        }
    }

    @Override
    protected void onActivityResult(int request, int result, Intent data) {
        super.onActivityResult(request, result, data);
        if (request != FILE || result != RESULT_OK || data == null || data.getData() == null) {
            return;
        }
        try {
            // Permits an upload to resume after the end of the process.
            getContentResolver().takePersistableUriPermission(data.getData(), Intent.FLAG_GRANT_READ_URI_PERMISSION);
        } catch (SecurityException e) {
            // Not every provider gives it: the file can be read for now.
        }
        look(data.getData());
        if (size >= 0) {
            app.said().edit().putString(URI, data.getData().toString()).apply();
        }
    }

    /** Finds out name and length. */
    private void look(Uri chosen) {
        file = null;
        size = -1;
        name = String.valueOf(chosen.getLastPathSegment());
        TextView shown = (TextView) findViewById(R.id.file);
        try (Cursor cursor = getContentResolver().query(chosen, null, null, null, null)) {
            if (cursor != null && cursor.moveToFirst()) {
                int column = cursor.getColumnIndex(OpenableColumns.DISPLAY_NAME);
                name = column >= 0 && !cursor.isNull(column) ? cursor.getString(column) : name;
                column = cursor.getColumnIndex(OpenableColumns.SIZE);
                size = column >= 0 && !cursor.isNull(column) ? cursor.getLong(column) : -1;
            }
        } catch (RuntimeException e) {
            // Another app's provider: whatever it throws is about the file.
            shown.setText(getString(R.string.unreadable, String.valueOf(e.getMessage())));
            return;
        }
        if (size < 0) {
            shown.setText(getString(R.string.unknown_size, name));
            return;
        }
        file = chosen;
        told = "";
        shown.setText(getString(R.string.file, name, Formatter.formatFileSize(this, size)));
    }

    private void start() {
        String server = ((EditText) findViewById(R.id.server)).getText().toString();
        String algorithm = (String) ((Spinner) findViewById(R.id.algorithm)).getSelectedItem();
        if (file == null) {
            say(getString(R.string.no_file));
            return;
        }
        Job job;
        try {
            job = Job.of(server, algorithm);
        } catch (IllegalArgumentException e) {
            say(e.getMessage());
            return;
        }
        app.said().edit().putString(SERVER, server).putString(ALGORITHM, algorithm).apply();
        told = "";
        app.begin(job, file, size);
        show();
    }

    private void pauseOrResume() {
        Upload upload = app.upload();
        if (upload == null) {
            return;
        }
        told = "";
        if (upload.isBusy()) {
            upload.pause();
        } else {
            app.resume();
        }
        show();
    }

    private void share() {
        if (app.upload() == null) {
            return;
        }
        try {
            byte[] csv = app.upload().curve().csv().getBytes(Charset.forName("UTF-8"));
            Uri uri = ResultsProvider.put(this, "alcc-upload.csv", csv);
            Intent send = new Intent(Intent.ACTION_SEND).setType("text/csv").putExtra(Intent.EXTRA_STREAM, uri)
                .addFlags(Intent.FLAG_GRANT_READ_URI_PERMISSION);
            startActivity(Intent.createChooser(send, getString(R.string.share_title)));
        } catch (IOException e) {
            say(getString(R.string.failed, e.getMessage()));
        }
    }

    /** Begins, or stops what is being recorded. */
    private void record() {
        if (app.recording() != null && app.recording().isBusy()) {
            app.recording().stop();
            return;
        }
        String server = ((EditText) findViewById(R.id.server)).getText().toString();
        Job job;
        try {
            job = Job.of(server, Job.ALGORITHMS[0], Recorder.PORT);
        } catch (IllegalArgumentException e) {
            say(e.getMessage());
            return;
        }
        app.said().edit().putString(SERVER, server).apply();
        told = "";
        app.record(job);
        show();
    }

    private void shareTraces() {
        Recording got = app.recording() == null ? null : app.recording().result();
        if (got == null) {
            return;
        }
        try {
            ArrayList<Uri> traces = new ArrayList<Uri>();
            traces.add(ResultsProvider.put(this, "down.trace", ChannelRecording.trace(got, got.down)));
            if (got.up != null) {
                traces.add(ResultsProvider.put(this, "up.trace", ChannelRecording.trace(got, got.up)));
            }
            Intent send = new Intent(Intent.ACTION_SEND_MULTIPLE).setType("text/plain")
                .putParcelableArrayListExtra(Intent.EXTRA_STREAM, traces)
                .addFlags(Intent.FLAG_GRANT_READ_URI_PERMISSION);
            // Android takes over the permission for what is in the clip only.
            ClipData clip = ClipData.newRawUri("", traces.get(0));
            for (int i = 1; i < traces.size(); i++) {
                clip.addItem(new ClipData.Item(traces.get(i)));
            }
            send.setClipData(clip);
            startActivity(Intent.createChooser(send, getString(R.string.share_traces)));
        } catch (IOException e) {
            say(getString(R.string.failed, e.getMessage()));
        }
    }

    private void showRecording() {
        ChannelRecording recording = app.recording();
        boolean records = recording != null && recording.isBusy();
        Button record = (Button) findViewById(R.id.record);
        record.setEnabled(records || !app.isBusy());
        record.setText(records ? R.string.stop_recording : R.string.record);
        Recording got = recording == null ? null : recording.result();
        findViewById(R.id.share_traces).setEnabled(got != null && got.down.count() > 0);
        TextView words = (TextView) findViewById(R.id.recorded);
        if (records) {
            words.setText(getString(R.string.recording, (int) (recording.progress() * 100), recording.rate()));
        } else if (got == null) {
            words.setText(recording == null ? getString(R.string.record_hint)
                : getString(R.string.failed, recording.problem()));
        } else if (got.isComplete()) {
            words.setText(getString(R.string.recorded, ChannelRecording.mean(got, got.down),
                ChannelRecording.mean(got, got.up)));
        } else {
            words.setText(getString(R.string.recorded_part, String.valueOf(got.end), got.down.count()));
        }
    }

    private void say(String words) {
        told = words;
        show();
    }

    private void show() {
        Upload upload = app.upload();
        Upload.State state = upload == null ? Upload.State.READY : upload.state();
        boolean busy = upload != null && upload.isBusy();
        boolean canResume = state == Upload.State.PAUSED || state == Upload.State.FAILED;
        boolean records = app.recording() != null && app.recording().isBusy();
        showRecording();
        findViewById(R.id.start).setEnabled(!busy && !records);
        Button pause = (Button) findViewById(R.id.pause);
        pause.setEnabled(busy || canResume && !records);
        pause.setText(canResume ? R.string.resume : R.string.pause);
        findViewById(R.id.share).setEnabled(upload != null);
        ((CurveView) findViewById(R.id.curves)).show(upload == null ? null : upload.curve());
        ((TextView) findViewById(R.id.status)).setText(told.isEmpty() ? words(upload, state) : told);
        if (upload == null) {
            return;
        }
        long acked = upload.acknowledged();
        double part = upload.size() == 0 ? 1 : (double) acked / upload.size();
        ((ProgressBar) findViewById(R.id.progress)).setProgress((int) (part * 1000));
        ((TextView) findViewById(R.id.bytes)).setText(getString(R.string.of, Formatter.formatFileSize(this, acked),
            Formatter.formatFileSize(this, upload.size()), (int) (part * 100)));
    }

    private String words(Upload upload, Upload.State state) {
        switch (state) {
            case SENDING:
                Curve curve = upload.curve();
                double rtt = curve.count() == 0 ? 0 : curve.rtt(curve.count() - 1);
                return getString(R.string.sending, curve.recent(1000), rtt);
            case WAITING:
                return upload.problem().isEmpty() ? getString(R.string.waiting)
                    : getString(R.string.waiting_why, upload.problem());
            case PAUSED:
                return getString(R.string.paused);
            case DONE:
                return getString(R.string.done);
            case FAILED:
                return getString(R.string.failed, upload.problem());
            default:
                return getString(R.string.ready);
        }
    }
}
