// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.app;

import android.content.Context;
import android.graphics.Canvas;
import android.graphics.Paint;
import android.graphics.Path;
import android.util.AttributeSet;
import android.view.View;
import java.util.Locale;

/** Throughput above, round trip below, over the time of the upload. */
public final class CurveView extends View {
    private static final int BLUE = 0xff1f5fa8;
    private static final int RED = 0xffb3261e;
    private static final int GREY = 0xff5f6368;

    private final Paint line = new Paint(Paint.ANTI_ALIAS_FLAG);
    private final Paint text = new Paint(Paint.ANTI_ALIAS_FLAG);
    private final Path path = new Path();
    private final float unit;
    private Curve curve;

    /** Called by Android, which reads the layout. */
    public CurveView(Context context, AttributeSet attributes) {
        super(context, attributes);
        unit = context.getResources().getDisplayMetrics().density;
        line.setStyle(Paint.Style.STROKE);
        line.setStrokeWidth(2 * unit);
        text.setTextSize(12 * unit);
        text.setColor(GREY);
    }

    /** @param shown null: nothing yet */
    void show(Curve shown) {
        curve = shown;
        int n = curve == null ? 0 : curve.count();
        double now = n == 0 ? 0 : curve.recent(1000);
        setContentDescription(getContext().getString(R.string.curves, now, largest(false), newest(), largest(true)));
        invalidate();
    }

    private double newest() {
        for (int i = curve == null ? -1 : curve.count() - 1; i >= 0; i--) {
            if (curve.rtt(i) > 0) {
                return curve.rtt(i);
            }
        }
        return 0;
    }

    private double value(boolean delay, int i) {
        return delay ? curve.rtt(i) : curve.throughput(i);
    }

    private double largest(boolean delay) {
        double largest = 0;
        for (int i = 0; curve != null && i < curve.count(); i++) {
            largest = Math.max(largest, value(delay, i));
        }
        return largest;
    }

    @Override
    protected void onDraw(Canvas canvas) {
        super.onDraw(canvas);
        float half = getHeight() / 2f;
        draw(canvas, false, 0, half, BLUE, getContext().getString(R.string.throughput));
        draw(canvas, true, half, half, RED, getContext().getString(R.string.delay));
    }

    private void draw(Canvas canvas, boolean delay, float top, float height, int color, String name) {
        float head = text.getTextSize() * 1.4f;
        float base = top + height - 4 * unit;
        float room = height - head - 8 * unit;
        double largest = largest(delay);
        canvas.drawText(String.format(Locale.getDefault(), "%s (%.1f)", name, largest), 0, top + head - 4 * unit, text);
        line.setColor(GREY);
        line.setStrokeWidth(unit);
        canvas.drawLine(0, base, getWidth(), base, line);
        int n = curve == null ? 0 : curve.count();
        if (n < 2 || largest <= 0) {
            return;
        }
        long first = curve.millis(0);
        double span = Math.max(curve.millis(n - 1) - first, 1);
        path.reset();
        boolean draws = false;
        for (int i = delay ? 0 : 1; i < n; i++) {
            double value = value(delay, i);
            if (delay && value <= 0) {
                // A pause leaves a gap.
                draws = false;
                continue;
            }
            float x = (float) ((curve.millis(i) - first) / span * getWidth());
            float y = (float) (base - value / largest * room);
            if (draws) {
                path.lineTo(x, y);
            } else {
                path.moveTo(x, y);
            }
            draws = true;
        }
        line.setColor(color);
        line.setStrokeWidth(2 * unit);
        canvas.drawPath(path, line);
    }
}
