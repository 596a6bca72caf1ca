package everquery.rivals;

/** What flows through the Flink job: a query or an event. Flink wants a public class with public fields. */
public final class Message {
    public boolean query;
    public int key;
    /** Number of the query, or row of the event. */
    public int number;
    /** Low end, or value. */
    public double low;
    public double high;
    /** Total, or weight. */
    public double amount;

    public Message() {}

    Message(boolean query, int key, int number, double low, double high, double amount) {
        this.query = query;
        this.key = key;
        this.number = number;
        this.low = low;
        this.high = high;
        this.amount = amount;
    }
}
