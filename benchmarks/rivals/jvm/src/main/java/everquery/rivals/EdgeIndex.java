package everquery.rivals;

import java.util.Arrays;

/** Both ends of all borders of a key, sorted; an event tells those between the last place and its own. */
final class EdgeIndex implements Index {
    private static final int NOT_SORTED = -1;
    private double[] edge = new double[16];
    private double[] other = new double[16];
    private int[] query = new int[16];
    private int size;
    /** How many ends are at or below the last value; known once an event has come. */
    private int place = NOT_SORTED;
    private double last = Double.NEGATIVE_INFINITY;

    @Override
    public void add(Message added) {
        insert(added.low, added.high, added.number);
        insert(added.high, added.low, added.number);
    }

    private void insert(double at, double partner, int number) {
        if (size == edge.length) {
            edge = Arrays.copyOf(edge, 2 * size);
            other = Arrays.copyOf(other, 2 * size);
            query = Arrays.copyOf(query, 2 * size);
        }
        int where = size;
        if (place != NOT_SORTED) { // sorted already: open a gap
            where = behind(at);
            System.arraycopy(edge, where, edge, where + 1, size - where);
            System.arraycopy(other, where, other, where + 1, size - where);
            System.arraycopy(query, where, query, where + 1, size - where);
            place += at <= last ? 1 : 0;
        }
        edge[where] = at;
        other[where] = partner;
        query[where] = number;
        size++;
    }

    @Override
    public void take(Message event, Notices out) {
        if (place == NOT_SORTED) {
            sort();
            place = 0;
        }
        double value = event.low;
        int now = behind(value);
        double least = Math.min(last, value);
        double most = Math.max(last, value);
        boolean up = value > last;
        for (int i = Math.min(place, now); i < Math.max(place, now); i++) {
            if (!(other[i] > least && other[i] <= most)) { // else the box was jumped over
                boolean low = other[i] > edge[i];
                out.write(query[i], event.number, low == up ? 1 : 0);
            }
        }
        place = now;
        last = value;
    }

    /** How many ends are at or below a value. */
    private int behind(double value) {
        int low = 0;
        int high = size;
        while (low < high) {
            int middle = (low + high) >>> 1;
            if (edge[middle] <= value) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    private void sort() {
        int[] order = Sorting.order(edge, size);
        edge = Sorting.taken(edge, order);
        other = Sorting.taken(other, order);
        query = Sorting.taken(query, order);
    }
}
