package everquery.rivals;

import java.util.Locale;

/** What a rival showed, as one line of JSON. */
final class Result {
    int compared;
    int events;
    double seconds;
    double loadSeconds;
    /** Microseconds; below zero where it was not measured. */
    double untilLive = -1;

    void print() {
        System.out.printf(
                Locale.ROOT,
                "{\"compared\": %d, \"events\": %d, \"seconds\": %.9f, \"load_seconds\": %.3f, \"until_live_us\": %.3f}%n",
                compared, events, seconds, loadSeconds, untilLive);
    }

    /** The middle one of some times. */
    static double median(double[] times) {
        double[] sorted = times.clone();
        java.util.Arrays.sort(sorted);
        return sorted[sorted.length / 2];
    }
}
