package everquery.rivals;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;

/** One workload as the Python side wrote it: a file a column, 8 bytes a number, little-endian. */
final class Work {
    final String kind;
    final double[] low;
    final double[] high;
    /** Of the queries: the key of a border, the total of a threshold. */
    final long[] of;
    final double[] value;
    /** Of the events: the key of a border, the weight of a threshold. */
    final long[] with;
    /** How many of the events are first sights, which are neither compared nor timed. */
    final int first;
    /** How much is told by the first i events. */
    final long[] told;
    final double widest;

    Work(String kind, Path folder) throws IOException {
        this.kind = kind;
        low = doubles(folder, "low");
        high = doubles(folder, "high");
        of = longs(folder, "of");
        value = doubles(folder, "value");
        with = longs(folder, "with");
        told = longs(folder, "told");
        first = (int) longs(folder, "first")[0];
        double most = 0;
        for (int i = 0; i < low.length; i++) {
            most = Math.max(most, high[i] - low[i]);
        }
        widest = most * (1 + 1e-9);
    }

    /** How many keys there are; 1 where there are none. */
    int keys() {
        long most = 0;
        if (kind.equals("border")) {
            for (long key : with) {
                most = Math.max(most, key);
            }
        }
        return (int) most + 1;
    }

    /** Raise unless so much was told by the first events. */
    void check(String rival, int events, long found) {
        if (found != told[events]) {
            throw new IllegalStateException(
                    rival + ", " + kind + ": told " + found + " of " + events + " events, expected " + told[events]);
        }
    }

    private static ByteBuffer read(Path folder, String name) throws IOException {
        return ByteBuffer.wrap(Files.readAllBytes(folder.resolve(name))).order(ByteOrder.LITTLE_ENDIAN);
    }

    private static double[] doubles(Path folder, String name) throws IOException {
        ByteBuffer bytes = read(folder, name);
        double[] numbers = new double[bytes.remaining() / 8];
        bytes.asDoubleBuffer().get(numbers);
        return numbers;
    }

    private static long[] longs(Path folder, String name) throws IOException {
        ByteBuffer bytes = read(folder, name);
        long[] numbers = new long[bytes.remaining() / 8];
        bytes.asLongBuffer().get(numbers);
        return numbers;
    }
}
