package everquery.rivals;

import java.util.Arrays;

/** Queries by their low ends: an event tries those that begin at most the widest width below it. */
final class LowIndex implements Index {
    private final boolean threshold;
    private double[] low = new double[16];
    private double[] high = new double[16];
    private double[] left = new double[16];
    private int[] query = new int[16];
    private int size;
    private double widest;
    private boolean sorted;

    LowIndex(boolean threshold) {
        this.threshold = threshold;
    }

    @Override
    public void add(Message added) {
        if (size == low.length) {
            low = Arrays.copyOf(low, 2 * size);
            high = Arrays.copyOf(high, 2 * size);
            left = Arrays.copyOf(left, 2 * size);
            query = Arrays.copyOf(query, 2 * size);
        }
        low[size] = added.low;
        high[size] = added.high;
        left[size] = added.amount;
        query[size++] = added.number;
        widest = Math.max(widest, (added.high - added.low) * (1 + 1e-9));
        sorted = false;
    }

    @Override
    public void take(Message event, Notices out) {
        if (!sorted) {
            sort();
        }
        double value = event.low;
        int begin = behind(value - widest);
        int end = behind(value);
        if (!threshold) {
            for (int i = begin; i < end; i++) {
                if (high[i] > value) {
                    out.write(query[i], event.number, 1);
                }
            }
            return;
        }
        for (int i = begin; i < end; i++) {
            if (high[i] > value) {
                left[i] -= event.amount;
                if (left[i] <= 0) {
                    left[i] = Double.POSITIVE_INFINITY;
                    out.write(query[i], event.number, 1);
                }
            }
        }
    }

    private int behind(double value) {
        int begin = 0;
        int end = size;
        while (begin < end) {
            int middle = (begin + end) >>> 1;
            if (low[middle] <= value) {
                begin = middle + 1;
            } else {
                end = middle;
            }
        }
        return begin;
    }

    private void sort() {
        int[] order = Sorting.order(low, size);
        low = Sorting.taken(low, order);
        high = Sorting.taken(high, order);
        left = Sorting.taken(left, order);
        query = Sorting.taken(query, order);
        sorted = true;
    }
}
