package everquery.rivals;

import java.util.Arrays;
import java.util.Comparator;

/** Sorts arrays that belong together. */
final class Sorting {
    private Sorting() {}

    static int[] order(double[] by, int size) {
        Integer[] order = new Integer[size];
        Arrays.setAll(order, i -> i);
        Arrays.sort(order, Comparator.comparingDouble(i -> by[i]));
        return Arrays.stream(order).mapToInt(Integer::intValue).toArray();
    }

    static double[] taken(double[] from, int[] order) {
        double[] taken = new double[Math.max(16, order.length)];
        Arrays.setAll(taken, i -> i < order.length ? from[order[i]] : 0);
        return taken;
    }

    static int[] taken(int[] from, int[] order) {
        int[] taken = new int[Math.max(16, order.length)];
        Arrays.setAll(taken, i -> i < order.length ? from[order[i]] : 0);
        return taken;
    }
}
