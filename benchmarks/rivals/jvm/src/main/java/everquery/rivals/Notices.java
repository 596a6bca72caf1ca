package everquery.rivals;

/** What was told, written out as columns; they are written over once they are full. */
final class Notices {
    private static final int ROOM = 1 << 20;
    private final int[] query = new int[ROOM];
    private final int[] row = new int[ROOM];
    private final byte[] what = new byte[ROOM];
    long count;

    void write(int query, int row, int what) {
        int at = (int) count++ & (ROOM - 1);
        this.query[at] = query;
        this.row[at] = row;
        this.what[at] = (byte) what;
    }
}
