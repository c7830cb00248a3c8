// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.app;

import android.app.Notification;
import android.app.NotificationChannel;
import android.app.NotificationManager;
import android.app.PendingIntent;
import android.app.Service;
import android.content.Context;
import android.content.Intent;
import android.net.ConnectivityManager;
import android.net.Network;
import android.net.NetworkCapabilities;
import android.net.NetworkInfo;
import android.net.NetworkRequest;
import android.os.Build;
import android.os.Handler;
import android.os.IBinder;
import android.os.Looper;
import android.os.PowerManager;

/**
 * Keeps the process in the foreground while an upload or a recording runs, and notifies the upload of network changes.
 */
public final class UploadService extends Service {
    private static final int NOTIFICATION = 1;
    private static final String CHANNEL = "uploads";
    private static final long LOOK_MS = 1000;

    private final Handler handler = new Handler(Looper.getMainLooper());
    private final Runnable look = new Runnable() {
        @Override public void run() {
            look();
        }
    };
    private final ConnectivityManager.NetworkCallback networks = new ConnectivityManager.NetworkCallback() {
        @Override public void onAvailable(Network network) {
            later();
        }

        @Override public void onLost(Network network) {
            later();
        }

        /** The callbacks come on a thread of Android's. */
        private void later() {
            handler.post(new Runnable() {
                @Override public void run() {
                    networkMayHaveChanged();
                }
            });
        }
    };
    private PowerManager.WakeLock awake;
    private boolean runs;
    private String network = "";
    private int newest;
    private int percent = -1;

    @Override
    public IBinder onBind(Intent intent) {
        return null;
    }

    private AlccApp app() {
        return (AlccApp) getApplication();
    }

    private Upload upload() {
        return app().upload();
    }

    private boolean records() {
        return app().recording() != null && app().recording().isBusy();
    }

    @Override
    public int onStartCommand(Intent intent, int flags, int id) {
        if (Build.VERSION.SDK_INT >= 26) {
            NotificationChannel channel =
                new NotificationChannel(CHANNEL, getString(R.string.channel), NotificationManager.IMPORTANCE_LOW);
            ((NotificationManager) getSystemService(Context.NOTIFICATION_SERVICE)).createNotificationChannel(channel);
        }
        if (upload() == null && app().recording() == null) {
            // The process was ended and started again without what it did.
            stopSelf();
            return START_NOT_STICKY;
        }
        newest = id;
        percent = percent();
        startForeground(NOTIFICATION, notification());
        if (!runs) {
            runs = true;
            awake = ((PowerManager) getSystemService(Context.POWER_SERVICE))
                .newWakeLock(PowerManager.PARTIAL_WAKE_LOCK, "alcc:upload");
            awake.acquire();
            network = network();
            connectivity().registerNetworkCallback(
                new NetworkRequest.Builder().addCapability(NetworkCapabilities.NET_CAPABILITY_INTERNET).build(),
                networks);
        }
        handler.removeCallbacks(look);
        handler.postDelayed(look, LOOK_MS);
        return START_NOT_STICKY;
    }

    private ConnectivityManager connectivity() {
        return (ConnectivityManager) getSystemService(Context.CONNECTIVITY_SERVICE);
    }

    /** The network in use; empty if there is none. Newer calls are not in API 21. */
    @SuppressWarnings("deprecation")
    private String network() {
        NetworkInfo info = connectivity().getActiveNetworkInfo();
        return info == null || !info.isConnected() ? "" : info.getType() + " " + info.getExtraInfo();
    }

    /** A connection stays with the network that it began on. */
    void networkMayHaveChanged() {
        String now = network();
        boolean changed = !now.equals(network);
        network = now;
        if (changed && !now.isEmpty() && upload() != null) {
            upload().networkChanged();
        }
    }

    private int percent() {
        Upload upload = upload();
        if (records() || upload == null) {
            return (int) (app().recording().progress() * 100);
        }
        return upload.size() == 0 ? 100 : (int) (upload.acknowledged() * 100 / upload.size());
    }

    private Notification notification() {
        Notification.Builder builder =
            Build.VERSION.SDK_INT >= 26 ? new Notification.Builder(this, CHANNEL) : new Notification.Builder(this);
        int immutable = Build.VERSION.SDK_INT >= 23 ? PendingIntent.FLAG_IMMUTABLE : 0;
        Intent screen = new Intent(this, MainActivity.class).addFlags(Intent.FLAG_ACTIVITY_NEW_TASK);
        String words = records() || upload() == null
            ? getString(R.string.recording_notification, app().recording().job().server(), percent)
            : getString(R.string.notification, upload().job().server(), percent);
        return builder.setSmallIcon(R.drawable.icon).setOngoing(true)
            .setContentTitle(getString(R.string.app_name))
            .setContentText(words)
            .setProgress(100, percent, false)
            .setContentIntent(PendingIntent.getActivity(this, 0, screen, immutable)).build();
    }

    private void look() {
        Upload upload = upload();
        if (upload != null && upload.state() == Upload.State.DONE) {
            app().forget();
        }
        if (!app().isBusy()) {
            // Not if it was asked to start again meanwhile.
            stopSelf(newest);
            return;
        }
        if (percent() != percent) {
            percent = percent();
            ((NotificationManager) getSystemService(Context.NOTIFICATION_SERVICE))
                .notify(NOTIFICATION, notification());
        }
        handler.postDelayed(look, LOOK_MS);
    }

    @Override
    public void onDestroy() {
        if (runs) {
            runs = false;
            handler.removeCallbacks(look);
            connectivity().unregisterNetworkCallback(networks);
            awake.release();
        }
        super.onDestroy();
    }
}
