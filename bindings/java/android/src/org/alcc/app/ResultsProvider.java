// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.app;

import android.content.ContentProvider;
import android.content.ContentValues;
import android.content.Context;
import android.database.Cursor;
import android.database.MatrixCursor;
import android.net.Uri;
import android.os.ParcelFileDescriptor;
import android.provider.OpenableColumns;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.FileOutputStream;
import java.io.IOException;

/** Gives the files of results to the app that the user shares them with, and to no other. */
public final class ResultsProvider extends ContentProvider {
    private static final String AUTHORITY = "org.alcc.app.results";

    private static File folder(Context context) {
        return new File(context.getCacheDir(), "results");
    }

    /** Writes a file, and says under which address another app may read it. */
    static Uri put(Context context, String name, byte[] content) throws IOException {
        File folder = folder(context);
        if (!folder.isDirectory() && !folder.mkdirs()) {
            throw new IOException("cannot make the folder " + folder);
        }
        try (FileOutputStream out = new FileOutputStream(new File(folder, name))) {
            out.write(content);
        }
        return new Uri.Builder().scheme("content").authority(AUTHORITY).appendPath(name).build();
    }

    private File file(Uri uri) throws FileNotFoundException {
        String name = uri.getLastPathSegment();
        File file = new File(folder(getContext()), name == null ? "" : new File(name).getName());
        if (!file.isFile()) {
            throw new FileNotFoundException("no such result: " + uri);
        }
        return file;
    }

    @Override
    public boolean onCreate() {
        return true;
    }

    @Override
    public String getType(Uri uri) {
        return String.valueOf(uri.getLastPathSegment()).endsWith(".csv") ? "text/csv" : "text/plain";
    }

    @Override
    public ParcelFileDescriptor openFile(Uri uri, String mode) throws FileNotFoundException {
        return ParcelFileDescriptor.open(file(uri), ParcelFileDescriptor.MODE_READ_ONLY);
    }

    @Override
    public Cursor query(Uri uri, String[] projection, String selection, String[] arguments, String order) {
        MatrixCursor cursor = new MatrixCursor(new String[] {OpenableColumns.DISPLAY_NAME, OpenableColumns.SIZE});
        try {
            File file = file(uri);
            cursor.addRow(new Object[] {file.getName(), file.length()});
        } catch (FileNotFoundException e) {
            // An empty answer says so.
        }
        return cursor;
    }

    @Override
    public Uri insert(Uri uri, ContentValues values) {
        throw new UnsupportedOperationException("results are only read");
    }

    @Override
    public int delete(Uri uri, String selection, String[] arguments) {
        throw new UnsupportedOperationException("results are only read");
    }

    @Override
    public int update(Uri uri, ContentValues values, String selection, String[] arguments) {
        throw new UnsupportedOperationException("results are only read");
    }
}
